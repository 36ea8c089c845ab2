/*
 * plain_signals PROGRAM [ARGUMENT …]: runs a program with every signal at its default. GNU make
 * leaves the two signals of glibc's own (32, 33) ignored; a program sets them back by system calls,
 * but under QEMU's user mode it cannot.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	/* struct sigaction as the kernel has it, its members in any order: all zero */
	static const uint64_t by_default[4];
	(void)argc;
	for (int number = 1; number <= 64; number++)
		syscall(SYS_rt_sigaction, number, by_default, NULL, sizeof(uint64_t));
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
