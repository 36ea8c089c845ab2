/* What is to be measured, and on what: the contents of environment.json. */
#ifndef COLLECTOR_SURVEY_H
#define COLLECTOR_SURVEY_H

#include <jansson.h>

struct error;
struct site;

/*
 * Look at machine, mock and contenders (version, executable's digest, files shipped and their
 * size, limits in force). Fails, with the remedy, when a file that a contender's command needs is
 * not there. New reference.
 */
json_t *survey_make(struct site *site, struct error *err);

#endif
