#include "common/descriptors.h"

#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int descriptors_open_standard(struct error *err)
{
	/* Not close-on-exec: what comes to stand on 0 to 2 is to be inherited. */
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			return error_set(err, errno, "cannot open '/dev/null'");
	return 0;
}
