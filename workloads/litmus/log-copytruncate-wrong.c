/* Rotation by copying and truncating: the log is cut off before its copy is durable. One journal keeps the order.
 * run: --profile paper --data ordered --sector 4 --block 4
 * outcomes: old!,{-,"",old!} | "",{"",old!}
 * recoveries: 5
 * violation: yes
 * run: --profile paper --data writeback --sector 4 --block 4
 * run: --profile ext4 --data ordered --sector 4 --block 4
 * outcomes: old!,{-,"",....,old!} | "",{"",....,old!}
 * recoveries: 7
 * violation: yes
 * run: --profile ext4 --data writeback --sector 4 --block 4
 * outcomes: old!,- | old!,"" | old!,.... | old!,old! | "","" | "",.... | "",old!
 * recoveries: 9
 * violation: yes
 * run: --profile {paper,ext4} --data journal --sector 4 --block 4
 * outcomes: old!,{-,"",old!} | "",old!
 * recoveries: 4
 */
#include "litmus.h"

int main(void) {
  put("log", "old!");
  crashcut_barrier();
  put("log.1", "old!");
  must(truncate("log", 0));
  return 0;
}

void crashcut_recover(void) {
  show_text("log");
  show_text("log.1");
  assert(holds("log", "old!") || holds("log.1", "old!"));
}
