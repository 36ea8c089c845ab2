/*
 * The claim to measure on this machine: two runs at once would measure each other. It is a lock on
 * the file turnmeter.lock in the folder for temporary files, which scripts/up.sh takes too. The
 * kernel takes it back when its holder ends, however that was; the file, which stays, only says who
 * took it last.
 */
#ifndef COLLECTOR_CLAIM_H
#define COLLECTOR_CLAIM_H

struct error;

/* A descriptor that is the claim until it is closed; -1 if somebody has it, who is named. */
int claim_take(const char *folder, const char *plan, struct error *err);

#endif
