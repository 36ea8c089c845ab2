/*
 * The run protocol between the collector and its remote hand, the launcher.
 *
 * One SOCK_SEQPACKET Unix socket, both ends on one machine and of one build: integers travel in
 * native order. The launcher connects and says HELLO; from then on the collector sends one request
 * at a time, and the launcher answers each with OK or FAILED under the request's id. EXITED comes
 * by itself when the spawned process has been reaped, under the id of its SPAWN.
 *
 * A message is a struct launch_header followed by `length` bytes. Texts end in NUL and follow each
 * other. Anything that does not fit this is answered by FAILED (EPROTO) or ends the connection;
 * when the connection ends, the launcher kills what it spawned and empties its scratch folder.
 */
#ifndef COLLECTOR_LAUNCH_PROTO_H
#define COLLECTOR_LAUNCH_PROTO_H

#include <stdint.h>

enum {
	LAUNCH_VERSION = 1,
	LAUNCH_MESSAGE_MAX = 64 << 10, /* header included */
	LAUNCH_TEXTS_MAX = 1024,       /* arguments and variables of one SPAWN */
	LAUNCH_SCRATCH_FILE_MAX = 64 << 20,
};

enum launch_type {
	/*
	 * launcher: struct launch_hello, then the texts name (the contender it stands for), prefix
	 * ({prefix} of manifests), here ({here} of manifests) and scratch (the working folder)
	 */
	LAUNCH_HELLO = 1,
	/*
	 * collector: struct launch_spawn, then argc + envc texts; argv[0] is the path of the
	 * program. OK: struct launch_spawned and the descriptors of enum launch_fd. The child waits
	 * for one byte through LAUNCH_FD_GO, stamps the clock and executes; a GO closed unwritten
	 * ends it. Through LAUNCH_FD_STATUS comes the errno (int32_t) of a failed exec, or end of
	 * file when the exec has happened. One process at a time: else FAILED (EBUSY).
	 */
	LAUNCH_SPAWN,
	LAUNCH_EXITED, /* launcher: struct launch_exited */
	LAUNCH_KILL,   /* collector: kill everything but the launcher; OK when nothing is left */
	LAUNCH_PROBE,  /* collector: OK: struct launch_probe of the spawned process and its tree */
	LAUNCH_CLEAN,  /* collector: empty the scratch folder */
	LAUNCH_WRITE,  /* collector: struct launch_write, a text (a file name), the bytes */
	/* collector: a text, an absolute path. OK: the descriptor of a regular file or a folder,
	 * read-only */
	LAUNCH_OPEN,
	LAUNCH_OK,
	LAUNCH_FAILED, /* launcher: struct launch_failed, a text */
};

struct launch_header {
	uint32_t version; /* LAUNCH_VERSION */
	uint32_t type;
	uint32_t id;
	uint32_t length; /* of what follows */
};

struct launch_hello {
	int32_t pid; /* in the launcher's own namespace; 1: everything there is its to kill */
};

struct launch_spawn {
	uint32_t argc, envc;
};

enum launch_fd {
	LAUNCH_FD_PID,    /* pidfd */
	LAUNCH_FD_GO,     /* write end */
	LAUNCH_FD_STATUS, /* read end */
	LAUNCH_FD_STDIN,  /* write end */
	LAUNCH_FD_STDOUT, /* read end */
	LAUNCH_FD_STDERR, /* read end */
	LAUNCH_FDS
};

struct launch_spawned {
	int32_t pid; /* in the launcher's namespace */
};

struct launch_exited {
	int64_t spawn_ns; /* CLOCK_MONOTONIC just before exec; 0: it did not come to that */
	int32_t status;   /* as of waitpid(2) */
	int32_t reserved;
};

struct launch_probe {
	int64_t rss_peak_bytes; /* sum of VmHWM; -1: not readable */
	int64_t pss_bytes;      /* sum; -1: not readable */
	int64_t processes;
};

/* Bytes at `offset` of a file in the scratch folder; offset 0 makes it anew. */
struct launch_write {
	int64_t offset;
};

struct launch_failed {
	int32_t code; /* errno */
};

#endif
