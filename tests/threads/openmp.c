/* A loop of OpenMP's: its runtime waits by system calls of its own, which is refused. */
int main(void) {
  int sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(2)
  for (int i = 0; i < 10; ++i) sum += i;
  return sum == 45 ? 0 : 1;
}
