#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: libucx-cu12 1.19.0 (UCX 1.19) from the Python package index, a C compiler.
# Behaviour: ucp_ep_create with error handling, to a process that has ended since it published its address.
# A good guess: endpoints connect later; the creation succeeds, and the error handler reports the end of the peer.
# Seen: over TCP the creation itself fails, with UCS_ERR_UNREACHABLE. Transports without error handling (sysv) give the
#   same status for a peer that lives, so who tries again without error handling after this status switches the
#   detection of failures off because one peer has failed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/endpoint.c" <<'C'
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>
static ucp_worker_h worker(void) {
  ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM};
  ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
  ucp_context_h context;
  ucp_worker_h made;
  if (ucp_init(&params, NULL, &context) != UCS_OK || ucp_worker_create(context, &single, &made) != UCS_OK) exit(2);
  return made;
}
static void on_error(void* argument, ucp_ep_h endpoint, ucs_status_t status) {}
static const char* create(const void* address, ucp_err_handling_mode_t mode) {
  ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
    .address = address, .err_mode = mode, .err_handler = {on_error, NULL}};
  ucp_ep_h endpoint;
  return ucs_status_string(ucp_ep_create(worker(), &params, &endpoint));
}
int main(int argc, char** argv) {
  int channel[2], alive = argc > 2;
  char address[4096];
  if (pipe(channel)) return 2;
  pid_t peer = fork();
  if (peer == 0) {
    ucp_address_t* own;
    size_t length;
    if (ucp_worker_get_address(worker(), &own, &length) != UCS_OK || write(channel[1], own, length) < 0) _exit(2);
    if (alive) pause();
    _exit(0);
  }
  if (!alive) wait(NULL);
  if (read(channel[0], address, sizeof address) <= 0) return 2;
  printf("%s\n", create(address, argc > 1 ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE));
  kill(peer, SIGKILL);
  return 0;
}
C
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q libucx-cu12==1.19.0
ucx=$("$folder/env/bin/python" -c 'import libucx; print(libucx.__path__[0])')
cc "$folder/endpoint.c" -I"$ucx/include" -L"$ucx/lib" -lucp -luct -lucs -lucm -Wl,-rpath,"$ucx/lib" \
  -Wl,--allow-shlib-undefined -o "$folder/endpoint"
create() { # transports, arguments
  UCX_TLS=$1 UCX_LOG_LEVEL=fatal "$folder/endpoint" $2
}
[ "$(create tcp 'peer live')" = "Success" ] || { echo "no endpoint to a live peer"; exit 1; }
[ "$(create tcp peer)" = "Destination is unreachable" ] || { echo "an ended peer is reported otherwise now"; exit 1; }
[ "$(create sysv 'peer live')" = "Destination is unreachable" ] || { echo "missing error handling is reported otherwise now"; exit 1; }
echo "as described"
