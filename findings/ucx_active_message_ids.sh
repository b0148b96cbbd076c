#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: libucx-cu12 1.19.0 (UCX 1.19) from the Python package index, a C compiler.
# Behaviour: handlers of active messages with the ids 5 and 65541 (an id is an unsigned int), then a message to id 5.
# A good guess: the first handler gets it; or ids beyond a limit are refused when the handler is set.
# Seen: both calls succeed, and the second handler gets the message: 16 bits of the id count. Ids that are hashes or flags in
#   high bits meet without an error.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/ids.c" <<'C'
#include <stdio.h>
#include <ucp/api/ucp.h>
static ucs_status_t handle(void* argument, const void* header, size_t header_length, void* data, size_t length,
                           const ucp_am_recv_param_t* param) {
  printf("handler of id %u\n", *(unsigned*)argument);
  return UCS_OK;
}
int main(void) {
  static unsigned ids[] = {5, 65541};
  ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM};
  ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
  ucp_context_h context;
  ucp_worker_h worker;
  ucp_address_t* address;
  size_t length;
  ucp_ep_h endpoint;
  if (ucp_init(&params, NULL, &context) != UCS_OK || ucp_worker_create(context, &single, &worker) != UCS_OK) return 2;
  for (int i = 0; i < 2; i++) {
    ucp_am_handler_param_t handler = {
      .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
      .id = ids[i], .cb = handle, .arg = &ids[i]};
    printf("id %u: %s\n", ids[i], ucs_status_string(ucp_worker_set_am_recv_handler(worker, &handler)));
  }
  if (ucp_worker_get_address(worker, &address, &length) != UCS_OK) return 2;
  ucp_ep_params_t self = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address};
  if (ucp_ep_create(worker, &self, &endpoint) != UCS_OK) return 2;
  ucp_request_param_t none = {0};
  ucp_am_send_nbx(endpoint, ids[0], NULL, 0, "x", 1, &none);
  for (int i = 0; i < 1000; i++) ucp_worker_progress(worker);
  return 0;
}
C
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q libucx-cu12==1.19.0
ucx=$("$folder/env/bin/python" -c 'import libucx; print(libucx.__path__[0])')
cc "$folder/ids.c" -I"$ucx/include" -L"$ucx/lib" -lucp -luct -lucs -lucm -Wl,-rpath,"$ucx/lib" -Wl,--allow-shlib-undefined \
  -o "$folder/ids"
seen=$(UCX_TLS=self "$folder/ids")
printf 'UCX 1.19.0, a message to id 5:\n%s\n' "$seen"
[ "$seen" = "id 5: Success
id 65541: Success
handler of id 65541" ] || { echo "ids are kept apart now"; exit 1; }
echo "as described"
