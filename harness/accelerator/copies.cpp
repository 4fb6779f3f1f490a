#include "harness/accelerator/copies.h"

#include "harness/accelerator/aliases.h"
#include "harness/accelerator/devices.h"
#include "harness/accelerator/ledger.h"
#include "harness/accelerator/memory.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <cstring>
#include <optional>

namespace lockstep::accelerator {

namespace {

const char* why_the_host_waits(const at::Tensor& from, const at::Tensor& into, bool non_blocking) {
  if (into.device().is_cpu()) {
    if (!non_blocking) return "blocking copy to the host";
    return is_pinned(into.storage().data()) ? nullptr : "copy to pageable memory of the host";
  }
  return from.device().is_cpu() && !non_blocking ? "blocking copy from the host" : nullptr;
}

// The host sees data copied to page-locked memory only after it has waited for the copy: until then
// it reads 0xFF.
void hide_until(const Clock& event, const at::Tensor& into) {
  const at::Tensor values = into.clone();
  if (into.numel() == 0) return;
  std::memset(into.mutable_data_ptr(), 0xFF, into.nbytes());
  Ledger::instance().when_host_knows(event, [into, values] {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    into.copy_(values);
  });
}

}  // namespace

at::Tensor copy_tensor(const at::Tensor& from, const at::Tensor& into, bool non_blocking) {
  const bool is_from_device = from.device().is_privateuseone();
  const c10::Stream stream = current_stream(is_from_device ? from.get_device() : into.get_device());
  Ledger& ledger = Ledger::instance();
  if (!is_from_device) ledger.hurry_for(stream);
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    Aliases aliases;
    aliases.of(into).copy_(aliases.of(from));
    aliases.write_back();
  }
  std::optional<c10::Stream> other;
  if (is_from_device && into.device().is_privateuseone() && from.device() != into.device())
    other = current_stream(into.get_device());
  std::vector<Access> accesses;
  add_access(accesses, from, /*writes=*/false);
  add_access(accesses, into, /*writes=*/true);
  if (other) ledger.wait(stream, ledger.record(*other));
  ledger.submit(stream, "copy_", accesses);
  if (other) ledger.wait(*other, ledger.record(stream));
  if (const char* const reason = why_the_host_waits(from, into, non_blocking)) {
    ledger.host_knows(ledger.record(stream));
    ledger.host_waited(reason);
  } else if (into.device().is_cpu() && into.is_non_overlapping_and_dense()) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    hide_until(ledger.record(stream), into);
  }
  return into;
}

}  // namespace lockstep::accelerator
