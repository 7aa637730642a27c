// The object of a mutex, for those who wait with one.
#pragma once

#include <pthread.h>

#include "scheduler/operation.h"

namespace crashcut::scheduler::runtime {

ObjectId mutex_object(const pthread_mutex_t* m);

}  // namespace crashcut::scheduler::runtime
