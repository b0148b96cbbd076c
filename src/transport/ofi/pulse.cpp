// SPDX-License-Identifier: BSD-3-Clause
// Whether peers are alive: now and then a word of each one's memory is read. A peer that computes and does
// not look answers late (sockets) or by its adapter alone, takes no receive of its pool for it, and has one
// question at most to answer; the read fails when its connection breaks. One that said goodbye is not asked
// any more.
#include <ctime>

#include "base/config.hpp"
#include "base/log.hpp"
#include "transport/ofi/ofi.hpp"

namespace weft::transport::ofi {
namespace {

config::Size interval{"net.ofi_keepalive_ms", 1000, 0, 600000,
                      "Milliseconds between two looks whether the peers are alive; 0: never."};

constexpr uint32_t kPollsPerLook = 64;
constexpr size_t kPeersAtOnce = 128;         // asked in one interval; more take their turns
constexpr int64_t kGraceMilliseconds = 200;  // a goodbye may still be on its way

int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

}  // namespace

void Ofi::watch_over() {
  if (++polls_ % kPollsPerLook != 0 || interval == 0) [[likely]]
    return;
  const int64_t time = now();
  std::erase_if(suspects_, [&](Contact* of) {
    if (of->state == Contact::State::open && time - of->suspect_since < kGraceMilliseconds) return false;
    of->suspect_since = 0;
    if (of->state == Contact::State::open)
      lose(*of, Error(Errc::proc_aborted, "process " + std::to_string(of->peer) +
                                              " does not answer any more (" + of->suspicion + ")"));
    return true;
  });
  if (time < next_beat_ || known_.empty()) return;
  next_beat_ = time + static_cast<int64_t>(static_cast<size_t>(interval));
  for (size_t asked = 0; asked < std::min(kPeersAtOnce, known_.size()); ++asked)
    feel_pulse(*known_[turn_++ % known_.size()]);
}

/// True: this peer is dead, and everything that it is to be told is on its way.
bool Ofi::witnessed(Contact& of) {
  if (of.witness == nullptr || !of.witness->dead()) return false;
  of.witness.reset();
  replace_reads(of);
  const Error why(Errc::proc_aborted, "process " + std::to_string(of.peer) + " of this machine has ended");
  if (of.state == Contact::State::open) pulse_failed(of, "the process has ended");
  if (of.state == Contact::State::left) abandon_fetches(of, why);  // it went in order; nobody will serve them
  return true;
}

void Ofi::feel_pulse(Contact& of) {
  if (witnessed(of)) return;
  if (of.beating || of.suspect_since != 0 || of.state == Contact::State::left || !connect(of)) return;
  const ssize_t code = endpoint_->read(&pulse_->landing, sizeof pulse_->landing, pulse_region_->mem_desc,
                                       of.address, of.pulse, of.pulse_key, &of.beat);
  if (code == 0) {
    of.beating = true;
    of.doubt_asked = of.doubted;
  } else if (code != -EAGAIN) {
    pulse_failed(of, endpoint_->library().strerror(static_cast<int>(-code)));
  } else if (over_tcp_) {
    knock(of);
  }
}

/// A fetch from this peer has failed. True: its pulse will tell whether it is dead, and settle_doubt()
/// follows.
bool Ofi::doubt(Contact& of) {
  if (interval == 0 || of.state != Contact::State::open) return false;
  if (!std::exchange(of.doubted, true)) {
    of.doubt_asked = false;
    feel_pulse(of);
  }
  return true;
}

void Ofi::pulse_felt(Contact& of) {
  of.beating = false;
  if (!of.doubted) return;
  if (of.doubt_asked)
    settle_doubt(of);
  else
    feel_pulse(of);
}

/// It cannot even be asked: it does not accept our connection yet, or is not there any more.
void Ofi::knock(Contact& of) {
  std::string why;
  if (of.knock == nullptr) {
    of.knock = Knock::at(of.where);
    if (of.knock == nullptr) return;
  }
  const Knock::Answer answer = of.knock->answer(why);
  if (answer == Knock::Answer::waiting) return;
  of.knock.reset();
  if (answer == Knock::Answer::nobody) pulse_failed(of, std::move(why));
}

void Ofi::pulse_failed(Contact& of, std::string why) {
  if (of.state != Contact::State::open || of.suspect_since != 0) return;
  log::write(log::Level::debug, "libfabric: the pulse of process %u cannot be read: %s", of.peer,
             why.c_str());
  of.suspect_since = now();
  of.suspicion = std::move(why);
  suspects_.push_back(&of);
}

}  // namespace weft::transport::ofi
