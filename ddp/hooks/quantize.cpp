#include "ddp/communication_hooks.h"
#include "ddp/errors.h"

#include <torch/torch.h>

namespace lockstep {

namespace {

constexpr double kSteps = 255.0;

// Bytes of [chunks, elements of each], after the least value and the step of each chunk.
struct Packing {
  std::int64_t elements = 0, chunk = 1;
  at::ScalarType dtype = at::kFloat;  // of the two numbers

  std::int64_t chunks() const { return (elements + chunk - 1) / chunk; }
  std::int64_t padded() const { return chunks() * chunk; }
  std::int64_t header_bytes() const {
    return chunks() * 2 * static_cast<std::int64_t>(c10::elementSize(dtype));
  }
};

// The padding repeats the last element, so it moves no chunk's ends.
at::Tensor packed(const at::Tensor& values, const Packing& packing) {
  const at::Tensor wide = values.to(packing.dtype);
  const at::Tensor last = wide.narrow(0, packing.elements - 1, 1);
  const at::Tensor rows = at::cat({wide, last.expand({packing.padded() - packing.elements})})
                              .view({packing.chunks(), packing.chunk});
  const auto [least, greatest] = at::aminmax(rows, /*dim=*/1, /*keepdim=*/true);
  const at::Tensor step = (greatest - least) / kSteps;
  // A chunk of equal values has no step. NaN and infinities have no byte: any will do, since the
  // step that is sent with it is not finite.
  const at::Tensor bytes =
      ((rows - least) / step).nan_to_num(0.0, 0.0, 0.0).round_().clamp_(0.0, kSteps).to(at::kByte);
  const at::Tensor header = at::cat({least, step}, 1).contiguous().view({-1}).view(at::kByte);
  return at::cat({header, bytes.view({-1})});
}

at::Tensor unpacked(const at::Tensor& bytes, const Packing& packing) {
  const std::int64_t header_bytes = packing.header_bytes();
  const at::Tensor header =
      bytes.narrow(0, 0, header_bytes).clone().view(packing.dtype).view({packing.chunks(), 2});
  const at::Tensor steps = bytes.narrow(0, header_bytes, packing.padded())
                               .view({packing.chunks(), packing.chunk})
                               .to(packing.dtype);
  return (header.narrow(1, 0, 1) + steps * header.narrow(1, 1, 1))
      .view({-1})
      .narrow(0, 0, packing.elements);
}

class Quantize : public CommunicationHook {
 public:
  explicit Quantize(std::int64_t chunk) : chunk_(chunk) {
    if (chunk < 1) {
      throw UsageError("quantize_hook: chunk is " + std::to_string(chunk) +
                       ", expected at least 1 element");
    }
  }

  std::string description() const override {
    return "quantize, chunks of " + std::to_string(chunk_);
  }

  HookResult run(GradBucket& bucket, HookCollectives& collectives) override {
    const at::Tensor into = bucket.buffer();
    if (into.numel() == 0) return HookResult(into);
    const Packing packing{.elements = into.numel(),
                          .chunk = chunk_,
                          .dtype = into.scalar_type() == at::kDouble ? at::kDouble : at::kFloat};
    auto gather = collectives.all_gather(packed(into, packing));
    return HookResult([into, packing, gather, divisor = collectives.divisor()]() mutable {
      at::Tensor sum = at::zeros({packing.elements}, into.options().dtype(packing.dtype));
      for (const at::Tensor& part : gather.wait_for_parts()) sum += unpacked(part, packing);
      return into.copy_(sum.div_(divisor));
    });
  }

 private:
  std::int64_t chunk_;
};

}  // namespace

std::shared_ptr<CommunicationHook> quantize_hook(std::int64_t chunk) {
  return std::make_shared<Quantize>(chunk);
}

}  // namespace lockstep
