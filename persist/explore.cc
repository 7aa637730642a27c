#include "persist/explore.h"

namespace crashcut::persist {

BudgetMeter::BudgetMeter(const Budget& budget) : budget_(budget), start_(std::chrono::steady_clock::now()) {}

bool BudgetMeter::is_spent() const {
  if (runs_ == 0) return false;
  if (budget_.runs_max != 0 && runs_ >= budget_.runs_max) return true;
  return budget_.time_max.count() != 0 && std::chrono::steady_clock::now() - start_ >= budget_.time_max;
}

}  // namespace crashcut::persist
