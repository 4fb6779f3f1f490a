#include "recorder/cpp/sampler_log.h"

#include "recorder/cpp/digest.h"

#include <c10/util/Type.h>

namespace lockstep {

namespace {

class FileSamplerLog final : public SamplerLog {
 public:
  FileSamplerLog(std::shared_ptr<RankRecording> recording, std::string name)
      : recording_(std::move(recording)), name_(std::move(name)) {}

  void begin(const Pass& pass, size_t batch_size) override {
    recording_->guarded(name_, [&] { record_begin(pass, batch_size); });
  }

  void drawn(const std::vector<size_t>& indices) override {
    static_assert(sizeof(size_t) == sizeof(int64_t));
    recording_->guarded("indices of " + name_, [&] {
      const auto count = static_cast<int64_t>(indices.size());
      recording_->file.append_text(FrameKind::observation, header_of(name_, "int64", {count}),
                                   std::as_bytes(std::span(indices)));
    });
  }

  void exhausted() override {
    recording_->guarded("the end of " + name_,
                        [&] { recording_->fact(name_ + " exhausted", Json::object()); });
  }

 private:
  void record_begin(const Pass& pass, size_t batch_size) {
    recording_->at("data");
    Json values{{"epoch", passes_++},
                {"sampler", c10::demangle(pass.sampler.c_str())},
                {"batch_size", batch_size},
                {"drops_batch", false}};
    if (pass.length >= 0) values["length"] = pass.length;
    if (pass.replicas < 0 && !pass.fingerprint.empty()) values["fingerprint"] = pass.fingerprint;
    if (pass.replicas >= 0)
      values.update({{"replicas", pass.replicas},
                     {"rank", pass.rank},
                     {"shuffle", pass.shuffles},
                     {"seed", pass.seed},
                     {"sampler_epoch", pass.epoch},
                     {"drops", pass.drops}});
    recording_->fact(name_, values);
  }

  const std::shared_ptr<RankRecording> recording_;
  const std::string name_;
  int64_t passes_ = 0;
};

}  // namespace

std::shared_ptr<SamplerLog> sampler_log(std::shared_ptr<RankRecording> recording,
                                        std::string name) {
  return std::make_shared<FileSamplerLog>(std::move(recording), std::move(name));
}

std::string Recorder::fingerprint_of(const at::Tensor& first_sample) {
  try {
    return std::to_string(digested(first_sample).bits);
  } catch (const std::exception&) {  // no dtype or layout that has a digest
    return "";
  }
}

}  // namespace lockstep
