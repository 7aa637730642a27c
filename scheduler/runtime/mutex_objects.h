// Mutexes, for calls that wait with one: condition variables.
#pragma once

#include <pthread.h>

#include "scheduler/operation.h"

namespace crashcut::scheduler::runtime {

ObjectId mutex_object(const pthread_mutex_t* m);
// A mutex whose owner's host died goes to the next thread. Only that of a robust mutex is told: EOWNERDEAD.
std::int64_t as_told(ObjectId mutex, std::int64_t result);
// Whether the running actor holds the mutex, and took it over from an owner that died.
bool has_owner_died(const pthread_mutex_t* m);
// Locks it; the thread stands in line if the policy asks for that.
std::int64_t wait_for_mutex(ObjectId mutex, const void* caller);

}  // namespace crashcut::scheduler::runtime
