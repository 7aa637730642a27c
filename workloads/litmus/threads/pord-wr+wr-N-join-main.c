/* Four threads write a file each; main waits for their end and puts the four together into a result that it makes
 * durable. When it has said so, the result is whole; before that it grows part by part, and inside a block over zeros
 * first.
 * threads: --profile paper --sector 1 --block 4
 * outcomes: -,"" | -,aa | -,aa.. | -,aab. | -,aabb | -,aabbcc | -,aabbcc.. | -,aabbccd. | -,aabbccdd | glued,aabbccdd
 * executions: 1
 * recoveries: 10
 * paper-count: 216
 */
#include "join.h"

int main(void) {
  int result = open_to("result", O_WRONLY | O_CREAT | O_TRUNC);
  crashcut_barrier();
  run_threads(4, write_part);
  glue(result);
  return 0;
}

void crashcut_recover(void) { check_result(); }
