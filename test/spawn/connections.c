/* SPDX-License-Identifier: BSD-3-Clause */
/* Modes of test_spawn_processes for jobs that connect: ports, the name service, MPI_Comm_join. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "processes.h"

void print_error(const char* call, int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Error_string(code, text, &length);
  printf("%s: %s\n", call, text);
}

/* accept NAME, connect NAME: two jobs by the name service. */
void accept_job(char** arguments) {
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm other;
  if (rank_of(MPI_COMM_WORLD) == 0) {
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Publish_name(arguments[0], MPI_INFO_NULL, port);
    printf("published\n");
    fflush(stdout);
  }
  MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
  exchange(other);
  if (rank_of(MPI_COMM_WORLD) == 0) {
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Publish_name(arguments[0], MPI_INFO_NULL, port)) == MPI_ERR_NAME);
    CHECK(MPI_Unpublish_name(arguments[0], MPI_INFO_NULL, port) == MPI_SUCCESS);
    CHECK(class_of(MPI_Unpublish_name(arguments[0], MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
    CHECK(class_of(MPI_Lookup_name(arguments[0], MPI_INFO_NULL, port)) == MPI_ERR_NAME);
    MPI_Close_port(port);
    CHECK(class_of(MPI_Close_port(port)) == MPI_ERR_PORT);
  }
  merged(other, 0, NULL);
  MPI_Comm_disconnect(&other);
}

void connect_job(char** arguments) {
  char port[MPI_MAX_PORT_NAME];
  MPI_Comm other;
  const int leads = rank_of(MPI_COMM_WORLD) == 0;
  if (leads) MPI_Lookup_name(arguments[0], MPI_INFO_NULL, port);
  MPI_Comm_connect(leads ? port : NULL, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
  exchange(other);
  merged(other, 1, NULL);
  MPI_Comm_disconnect(&other);
}

/* halves: the two halves of one job connect; then two ranks join by a socket. */
void halves(void) {
  const int rank = rank_of(MPI_COMM_WORLD), half = rank % 2;
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm side, other;
  MPI_Comm_split(MPI_COMM_WORLD, half, 0, &side);
  if (rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
  MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (half == 0)
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, side, &other);
  else
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, side, &other);
  exchange(other);
  merged(other, half, NULL);
  MPI_Comm_disconnect(&other);
  if (rank == 0) MPI_Close_port(port);
  MPI_Comm_free(&side);
}

/* join FD: with the process at the other end of a socket. */
void join(char** arguments) {
  MPI_Comm other;
  MPI_Comm_join(atoi(arguments[0]), &other);
  CHECK(other != MPI_COMM_NULL);
  exchange(other);
  MPI_Comm_disconnect(&other);
}

/* More processes than can be started: an error, after which the job goes on. */
static void spawn_too_many(void) {
  const int numbers[] = {65537, 2147483647};
  char text[MPI_MAX_ERROR_STRING], expected[64];
  int length;
  MPI_Comm children = MPI_COMM_SELF;
  for (int i = 0; i < 2; ++i) {
    const int code = MPI_Comm_spawn(self, MPI_ARGV_NULL, numbers[i], MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                                    &children, MPI_ERRCODES_IGNORE);
    CHECK(class_of(code) == MPI_ERR_SPAWN && children == MPI_COMM_NULL);
    MPI_Error_string(code, text, &length);
    snprintf(expected, sizeof expected, "%d processes: at most 65536 can be started", numbers[i]);
    CHECK(strstr(text, expected) != NULL);
  }
  char* commands[] = {(char*)self, (char*)self};
  const MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
  const int halves[] = {2147483647, 2147483647};
  const int code = MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, halves, infos, 0, MPI_COMM_WORLD,
                                           &children, MPI_ERRCODES_IGNORE);
  CHECK(class_of(code) == MPI_ERR_SPAWN);
}

/* wrong: errors of calls that cannot succeed. */
void wrong(void) {
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm other;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  CHECK(class_of(MPI_Comm_connect("no port", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other)) == MPI_ERR_PORT);
  CHECK(other == MPI_COMM_NULL);
  CHECK(class_of(MPI_Comm_accept("no port", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other)) == MPI_ERR_PORT);
  CHECK(class_of(MPI_Close_port("no port")) == MPI_ERR_PORT);
  CHECK(class_of(MPI_Lookup_name("weft test: never published", MPI_INFO_NULL, port)) == MPI_ERR_NAME);
  MPI_Open_port(MPI_INFO_NULL, port);
  MPI_Info timeout;
  MPI_Info_create(&timeout);
  MPI_Info_set(timeout, "timeout", "1");
  char first[MPI_MAX_PORT_NAME];
  memcpy(first, port, sizeof first);
  MPI_Bcast(first, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank_of(MPI_COMM_WORLD) == 1) /* nobody accepts */
    CHECK(class_of(MPI_Comm_connect(first, timeout, 0, MPI_COMM_SELF, &other)) == MPI_ERR_PORT);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Info_free(&timeout);
  MPI_Close_port(port);
  spawn_too_many();
  MPI_Comm inverse;
  MPI_Comm_dup(MPI_COMM_WORLD, &inverse);
  const int code =
      MPI_Comm_spawn(self, MPI_ARGV_NULL, 0, MPI_INFO_NULL, 0, inverse, &other, MPI_ERRCODES_IGNORE);
  CHECK(class_of(code) == (rank_of(inverse) == 0 ? MPI_ERR_ARG : MPI_ERR_SPAWN));
  MPI_Comm_free(&inverse);
}

/* names NAME: the name service of the launcher. */
void names(char** arguments) {
  char port[MPI_MAX_PORT_NAME], found[MPI_MAX_PORT_NAME] = "";
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Open_port(MPI_INFO_NULL, port);
  CHECK(class_of(MPI_Lookup_name(arguments[0], MPI_INFO_NULL, found)) == MPI_ERR_NAME);
  CHECK(MPI_Publish_name(arguments[0], MPI_INFO_NULL, port) == MPI_SUCCESS);
  CHECK(class_of(MPI_Publish_name(arguments[0], MPI_INFO_NULL, port)) == MPI_ERR_NAME);
  CHECK(MPI_Lookup_name(arguments[0], MPI_INFO_NULL, found) == MPI_SUCCESS && strcmp(found, port) == 0);
  CHECK(MPI_Unpublish_name(arguments[0], MPI_INFO_NULL, port) == MPI_SUCCESS);
  CHECK(class_of(MPI_Unpublish_name(arguments[0], MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
  CHECK(class_of(MPI_Lookup_name(arguments[0], MPI_INFO_NULL, found)) == MPI_ERR_NAME);
  MPI_Close_port(port);
}

/* accept_broken NAME, connect_broken NAME: a rank of the accepting job dies before the jobs connect. */
void accept_broken(char** arguments) {
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm other = MPI_COMM_NULL;
  if (rank_of(MPI_COMM_WORLD) == 1) kill(getpid(), SIGKILL);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Open_port(MPI_INFO_NULL, port);
  MPI_Publish_name(arguments[0], MPI_INFO_NULL, port);
  printf("published\n");
  fflush(stdout);
  print_error("accept", MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other));
  CHECK(other == MPI_COMM_NULL);
}

/* leave_port NAME: ends without accepting, 2 s after the end of its standard input. It makes progress until
 * then, so that the request of a process that connects arrives. */
void leave_port(char** arguments) {
  char port[MPI_MAX_PORT_NAME], byte;
  struct pollfd input = {STDIN_FILENO, POLLIN, 0};
  int flag, open = 1;
  MPI_Open_port(MPI_INFO_NULL, port);
  MPI_Publish_name(arguments[0], MPI_INFO_NULL, port);
  printf("published\n");
  fflush(stdout);
  for (int rounds = 0; rounds < 200; rounds += !open) {
    if (open && poll(&input, 1, 0) != 0) open = read(STDIN_FILENO, &byte, 1) > 0;
    MPI_Iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    usleep(10000);
  }
}

void connect_broken(char** arguments) {
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (rank_of(MPI_COMM_WORLD) == 0) MPI_Lookup_name(arguments[0], MPI_INFO_NULL, port);
  printf("connecting\n");
  fflush(stdout);
  print_error("connect", MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other));
  CHECK(other == MPI_COMM_NULL);
}
