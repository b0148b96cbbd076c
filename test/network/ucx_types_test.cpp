// SPDX-License-Identifier: BSD-3-Clause
// src/transport/ucx/api.hpp compared with UCX's headers.
#include <gtest/gtest.h>
#include <ucp/api/ucp.h>

#include "transport/ucx/api.hpp"

namespace weft::transport::ucx::api {
namespace {

#define SAME_FIELD(mine, field, unfinished, their_field)               \
  EXPECT_EQ(offsetof(mine, field), offsetof(unfinished, their_field)); \
  EXPECT_EQ(sizeof(mine::field), sizeof(unfinished::their_field))

TEST(UcxTypes, Structures) {
  SAME_FIELD(Parameters, mask, ucp_params_t, field_mask);
  SAME_FIELD(Parameters, features, ucp_params_t, features);
  SAME_FIELD(Parameters, estimated_endpoints, ucp_params_t, estimated_num_eps);
  SAME_FIELD(Parameters, name, ucp_params_t, name);
  SAME_FIELD(ContextAttributes, mask, ucp_context_attr_t, field_mask);
  SAME_FIELD(ContextAttributes, memory_types, ucp_context_attr_t, memory_types);
  SAME_FIELD(WorkerParameters, thread_mode, ucp_worker_params_t, thread_mode);
  SAME_FIELD(WorkerAttributes, max_am_header, ucp_worker_attr_t, max_am_header);
  SAME_FIELD(EndpointParameters, address, ucp_ep_params_t, address);
  SAME_FIELD(EndpointParameters, error_mode, ucp_ep_params_t, err_mode);
  SAME_FIELD(EndpointParameters, on_error, ucp_ep_params_t, err_handler.cb);
  SAME_FIELD(EndpointParameters, argument, ucp_ep_params_t, err_handler.arg);
  SAME_FIELD(AmHandlerParameters, id, ucp_am_handler_param_t, id);
  SAME_FIELD(AmHandlerParameters, flags, ucp_am_handler_param_t, flags);
  SAME_FIELD(AmHandlerParameters, callback, ucp_am_handler_param_t, cb);
  SAME_FIELD(AmHandlerParameters, argument, ucp_am_handler_param_t, arg);
  SAME_FIELD(AmReceiveParameters, attributes, ucp_am_recv_param_t, recv_attr);
}

TEST(UcxTypes, Operation) {
  SAME_FIELD(RequestParameters, mask, ucp_request_param_t, op_attr_mask);
  SAME_FIELD(RequestParameters, flags, ucp_request_param_t, flags);
  SAME_FIELD(RequestParameters, send, ucp_request_param_t, cb.send);
  SAME_FIELD(RequestParameters, receive, ucp_request_param_t, cb.recv_am);
  SAME_FIELD(RequestParameters, user, ucp_request_param_t, user_data);
  SAME_FIELD(RequestParameters, memory_type, ucp_request_param_t, memory_type);
  EXPECT_EQ(RequestParameters::kCallback, UCP_OP_ATTR_FIELD_CALLBACK);
  EXPECT_EQ(RequestParameters::kUser, UCP_OP_ATTR_FIELD_USER_DATA);
  EXPECT_EQ(RequestParameters::kFlags, UCP_OP_ATTR_FIELD_FLAGS);
  EXPECT_EQ(RequestParameters::kMemoryType, UCP_OP_ATTR_FIELD_MEMORY_TYPE);
  EXPECT_EQ(RequestParameters::kEager, UCP_AM_SEND_FLAG_EAGER);
  EXPECT_EQ(RequestParameters::kRendezvous, UCP_AM_SEND_FLAG_RNDV);
}

TEST(UcxTypes, Values) {
  EXPECT_EQ(sizeof(Code), sizeof(ucs_status_t));
  EXPECT_EQ(static_cast<int>(Code::in_progress), UCS_INPROGRESS);
  EXPECT_EQ(static_cast<int>(Code::unreachable), UCS_ERR_UNREACHABLE);
  EXPECT_EQ(static_cast<int>(Code::canceled), UCS_ERR_CANCELED);
  EXPECT_EQ(static_cast<int>(Code::last), UCS_ERR_LAST);
  EXPECT_EQ(static_cast<int>(kCuda), UCS_MEMORY_TYPE_CUDA);
  EXPECT_EQ(static_cast<int>(kCudaManaged), UCS_MEMORY_TYPE_CUDA_MANAGED);
  EXPECT_EQ(kSerialized, UCS_THREAD_MODE_SERIALIZED);
  EXPECT_EQ(kPeerErrors, UCP_ERR_HANDLING_MODE_PEER);
  EXPECT_EQ(kFeatureAm, UCP_FEATURE_AM);
  EXPECT_EQ(Parameters::kFeatures, UCP_PARAM_FIELD_FEATURES);
  EXPECT_EQ(Parameters::kEndpoints, UCP_PARAM_FIELD_ESTIMATED_NUM_EPS);
  EXPECT_EQ(ContextAttributes::kMemoryTypes, UCP_ATTR_FIELD_MEMORY_TYPES);
  EXPECT_EQ(WorkerAttributes::kMaxAmHeader, UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER);
  EXPECT_EQ(EndpointParameters::kErrorHandler, UCP_EP_PARAM_FIELD_ERR_HANDLER);
  EXPECT_EQ(AmHandlerParameters::kCallback, UCP_AM_HANDLER_PARAM_FIELD_CB);
  EXPECT_EQ(AmHandlerParameters::kWhole, UCP_AM_FLAG_WHOLE_MSG);
  EXPECT_EQ(AmReceiveParameters::kRendezvous, UCP_AM_RECV_ATTR_FLAG_RNDV);
  EXPECT_EQ(RequestParameters::kForce, UCP_EP_CLOSE_FLAG_FORCE);
}

TEST(UcxTypes, Results) {
  EXPECT_FALSE(is_error(nullptr));
  EXPECT_TRUE(is_error(reinterpret_cast<void*>(static_cast<intptr_t>(UCS_ERR_UNREACHABLE))));
  EXPECT_EQ(error_in(reinterpret_cast<void*>(static_cast<intptr_t>(UCS_ERR_CANCELED))), Code::canceled);
}

}  // namespace
}  // namespace weft::transport::ucx::api
