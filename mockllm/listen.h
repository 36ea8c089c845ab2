/* Listening sockets, non-blocking and closed on exec. Each is a descriptor, or -1. */
#ifndef MOCKLLM_LISTEN_H
#define MOCKLLM_LISTEN_H

struct error;

/* On 127.0.0.1; port 0: any free one. */
int listen_tcp(int port, struct error *err);
int listen_port(int fd);

/* On ::1, where there is one and the port is free there. */
int listen_tcp6(int port);

/* On a path of mode 0666. A socket file that nobody listens on any more is replaced. */
int listen_unix(const char *path, struct error *err);

#endif
