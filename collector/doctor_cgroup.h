/* Checks of the cgroups that runs are measured by (docs/doctor.md). */
#ifndef COLLECTOR_DOCTOR_CGROUP_H
#define COLLECTOR_DOCTOR_CGROUP_H

#include <stddef.h>

#include "collector/doctor.h"

extern const struct doctor_check doctor_cgroup_checks[];
extern const size_t doctor_cgroup_count;

#endif
