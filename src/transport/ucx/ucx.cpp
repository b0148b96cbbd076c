// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ucx/ucx.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/config.hpp"
#include "base/log.hpp"
#include "device/context_guard.hpp"
#include "transport/ucx/preferences.hpp"
#include "transport/ucx/state.hpp"

namespace weft::transport::ucx {

using api::Code;
using api::RequestParameters;

namespace {

config::Choice setting_failures(
    "net.failure_detection", 0, {"on", "off"},
    "Detection of failed processes on other hosts. off: ranks may wait for ever for a failed process, "
    "but UCX may use transports without error handling.",
    "all processes are known to end together and UCX is to use transports without error handling, "
    "which can be faster");

constexpr unsigned kProgressRounds = 16;

/// For a UCX with GPU support that does not use it.
void warn_about_gpus() {
  const char* chosen = std::getenv("UCX_TLS");
  if (!device::available() || chosen == nullptr) return;
  log::write(
      log::Level::warn,
      "UCX_TLS=%s disables GPU memory support of UCX, GPU messages are staged through host memory: add cuda "
      "to UCX_TLS, or unset it",
      chosen);
}

}  // namespace

Status Ucx::create(const launch::Job& job) {
  peer_errors_ = setting_failures.is("on");
  auto secret = new_secret();
  if (!secret) return std::move(secret).error();
  secret_ = *secret;
  WEFT_TRY(create_context(job));
  WEFT_TRY(create_worker());
  WEFT_TRY(register_handlers());
  aligned_copy_.resize(kMaxMessageBytes);
  if ((memory_types_ >> api::kCuda & 1) == 0 && api_.cuda_module) warn_about_gpus();
  return {};
}

Status Ucx::create_context(const launch::Job& job) {
  api::Config config = nullptr;
  if (Code code = api_.ucp_config_read(nullptr, nullptr, &config); code != Code::ok)
    return failure("ucp_config_read", code);
  if (peer_errors_)
    apply_overrides(api_, config,
                    {job.machine_size != 0, has_rdma_adapters(), api_.cuda_module && device::available()});
  api::Parameters parameters{};
  parameters.mask = api::Parameters::kFeatures | api::Parameters::kEndpoints;
  parameters.features = api::kFeatureAm;
  parameters.estimated_endpoints = static_cast<size_t>(std::max(1, job.size - job.local_size));
  const Code code = api_.ucp_init_version(1, 13, &parameters, config, &context_);
  api_.ucp_config_release(config);
  if (code != Code::ok) return failure("ucp_init", code);
  api::ContextAttributes attributes{};
  attributes.mask = api::ContextAttributes::kMemoryTypes;
  if (api_.ucp_context_query(context_, &attributes) == Code::ok) memory_types_ = attributes.memory_types;
  return {};
}

Status Ucx::create_worker() {
  api::WorkerParameters parameters{};
  parameters.mask = api::WorkerParameters::kThreadMode;
  parameters.thread_mode = api::kSerialized;
  if (Code code = api_.ucp_worker_create(context_, &parameters, &worker_); code != Code::ok)
    return failure("ucp_worker_create", code);
  api::WorkerAttributes attributes{};
  attributes.mask = api::WorkerAttributes::kMaxAmHeader;
  if (Code code = api_.ucp_worker_query(worker_, &attributes); code != Code::ok)
    return failure("ucp_worker_query", code);
  if (attributes.max_am_header < sizeof(RmaRequest))
    return Error(Errc::unsupported, "active message headers are limited to " +
                                        std::to_string(attributes.max_am_header) + " bytes (UCX_TLS?)");
  void* address = nullptr;
  size_t length = 0;
  if (Code code = api_.ucp_worker_get_address(worker_, &address, &length); code != Code::ok)
    return failure("ucp_worker_get_address", code);
  max_am_header_ = attributes.max_am_header;
  address_ = with_secret(secret_, std::string(static_cast<const char*>(address), length));
  api_.ucp_worker_release_address(worker_, address);
  return {};
}

/// Calls `Method` with the header of an active message and what follows it, if the header is authentic.
template <class Head, Code (Ucx::*Method)(const Head&, const Ucx::Arrival&)>
Code Ucx::handle(void* self, const void* header, size_t header_size, void* data, size_t size,
                 const api::AmReceiveParameters* parameters) {
  auto& ucx = *static_cast<Ucx*>(self);
  Head head;
  if (!ucx.is_authentic(header, header_size, head)) return Code::ok;
  const std::span rest(static_cast<const std::byte*>(header) + sizeof head, header_size - sizeof head);
  const bool rendezvous = (parameters->attributes & api::AmReceiveParameters::kRendezvous) != 0;
  return (ucx.*Method)(head, {rest, data, size, rendezvous});
}

Status Ucx::register_handlers() {
  const std::pair<unsigned, api::AmCallback> handlers[] = {
      {kMessageId, handle<MessageHeader, &Ucx::on_message>},
      {kRtsId, handle<RtsHeader, &Ucx::on_rts>},
      {kGetRequestId, handle<RmaRequest, &Ucx::on_get_request>},
      {kGetReplyId, handle<RmaReply, &Ucx::on_get_reply>},
      {kPutRequestId, handle<RmaRequest, &Ucx::on_put_request>},
      {kPutReplyId, handle<RmaReply, &Ucx::on_put_reply>},
      {kAnswerId, handle<AnswerHeader, &Ucx::on_answer>},
  };
  for (const auto& [id, callback] : handlers) {
    api::AmHandlerParameters handler{};
    handler.mask = api::AmHandlerParameters::kId | api::AmHandlerParameters::kFlags |
                   api::AmHandlerParameters::kCallback | api::AmHandlerParameters::kArgument;
    handler.id = id;
    handler.flags = api::AmHandlerParameters::kWhole;
    handler.callback = callback;
    handler.argument = this;
    const Code code = api_.ucp_worker_set_am_recv_handler(worker_, &handler);
    if (code != Code::ok) return failure("ucp_worker_set_am_recv_handler", code);
  }
  return {};
}

std::string Ucx::description() const {
  std::string text = "UCX " + api_.version + " (" + api_.path + ", " + api_.why + "), memory: host";
  if ((memory_types_ >> api::kCuda & 1) != 0)
    text += ", cuda";
  else
    text +=
        api_.cuda_module ? ", its CUDA module found no GPU or UCX_TLS excludes it" : ", built without CUDA";
  return text;
}

unsigned Ucx::progress() {
  if (gpu_operations_ == 0) [[likely]]
    return api_.ucp_worker_progress(worker_);
  const device::ContextGuard current(gpu_);
  return api_.ucp_worker_progress(worker_);
}

size_t Ucx::poll(Receiver& receiver, size_t) {
  if (worker_ == nullptr || receiver_ != nullptr) return 0;
  receiver_ = owner_ = &receiver;
  delivered_ = 0;
  if (!ready_.empty()) [[unlikely]]
    for (auto held = std::exchange(ready_, {}); Connection * connection : held) deliver_in_order(*connection);
  if (!finished_.empty() && !closing_) [[unlikely]]
    fire_completions();
  // Bulk data arrive in many fragments: several rounds per call, until a message is delivered.
  unsigned moved = 0;
  for (unsigned round = 0; round < kProgressRounds && delivered_ == 0; ++round) {
    const unsigned now = progress();
    moved += now;
    if (now == 0) break;
  }
  for (size_t i = 0; i < failing_.size();) {
    Connection& connection = *failing_[i];
    finish_failure(connection, receiver);
    if (i < failing_.size() && failing_[i] == &connection) ++i;
  }
  if (!unanswered_.empty()) [[unlikely]]
    send_answers();
  receiver_ = nullptr;
  return delivered_ + moved;
}

std::vector<std::string> other_libraries() {
  auto found = library();
  std::vector<std::string> texts;
  if (found)
    for (const Candidate& one : (*found)->seen) texts.push_back("UCX not used: " + one.text());
  return texts;
}

Result<std::unique_ptr<Network>> open(const launch::Job& job) {
  auto found = library();
  if (!found) return std::move(found).error();
  auto ucx = std::make_unique<Ucx>(**found, job);
  if (Status created = ucx->create(job); !created)
    return Error(created.error().code(),
                 "UCX " + (*found)->version + " (" + (*found)->path + "): " + created.error().message());
  return std::unique_ptr<Network>(std::move(ucx));
}

}  // namespace weft::transport::ucx
