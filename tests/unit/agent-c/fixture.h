/* What every test of the C agent includes: cmocka and the headers that it wants before itself. */
#ifndef TESTS_UNIT_AGENT_C_FIXTURE_H
#define TESTS_UNIT_AGENT_C_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS(table) (sizeof(table) / sizeof *(table))

#endif
