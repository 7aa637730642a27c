/* An index of workloads/pmem/ that two machines share. This goes before the index, index_main.h goes after it. */
#include "machines.h"

#define main main_of_pmem
#define crashcut_recover recover_of_pmem
