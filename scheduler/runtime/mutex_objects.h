// Mutexes, for those who wait with one.
#pragma once

#include <pthread.h>

#include "scheduler/operation.h"

namespace crashcut::scheduler::runtime {

ObjectId mutex_object(const pthread_mutex_t* m);
// Locks it, in line where the policy asks for that.
std::int64_t wait_for_mutex(ObjectId mutex, const void* caller);

}  // namespace crashcut::scheduler::runtime
