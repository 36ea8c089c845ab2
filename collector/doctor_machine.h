/* Checks of the machine: what makes times or memory move, or stand apart (docs/doctor.md). */
#ifndef COLLECTOR_DOCTOR_MACHINE_H
#define COLLECTOR_DOCTOR_MACHINE_H

#include <stddef.h>

#include "collector/doctor.h"

extern const struct doctor_check doctor_machine_checks[];
extern const size_t doctor_machine_count;

#endif
