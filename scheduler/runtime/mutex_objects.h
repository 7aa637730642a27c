// Mutexes, for calls that wait with one: condition variables.
#pragma once

#include <pthread.h>

#include "scheduler/operation.h"

namespace crashcut::scheduler::runtime {

ObjectId mutex_object(const pthread_mutex_t* m);
// Locks it; the thread stands in line if the policy asks for that.
std::int64_t wait_for_mutex(ObjectId mutex, const void* caller);

}  // namespace crashcut::scheduler::runtime
