/* Checks of what a plan needs: CPUs, memory, descriptors, ports, disk, programs, images
 * (docs/doctor.md). */
#ifndef COLLECTOR_DOCTOR_PLAN_H
#define COLLECTOR_DOCTOR_PLAN_H

#include <stddef.h>

#include "collector/doctor.h"

extern const struct doctor_check doctor_plan_checks[];
extern const size_t doctor_plan_count;

#endif
