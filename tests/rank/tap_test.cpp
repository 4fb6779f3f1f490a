#include "harness/rank/tap.h"

#include "harness/process/shared_memory.h"
#include "harness/rank/injector.h"
#include "harness/rank/journal.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace lockstep {
namespace {

std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// Every function declared virtual in `text`, destructors aside.
std::set<std::string> virtual_functions(const std::string& text) {
  std::set<std::string> names;
  const std::regex declaration("virtual\\s+[^;{()]*?\\b([A-Za-z_]+)\\s*\\(");
  for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it)
    names.insert((*it)[1]);
  return names;
}

TEST(Tap, OverridesEveryVirtualFunctionOfABackend) {
  const auto declared = virtual_functions(
      text_of(std::string(LOCKSTEP_TORCH) + "/include/torch/csrc/distributed/c10d/Backend.hpp"));
  ASSERT_GE(declared.size(), 40u) << "the wheel's header is not read as it should be";
  const std::string tap = text_of(std::string(LOCKSTEP_SOURCE) + "/harness/rank/tap.h");
  for (const auto& name : declared)
    EXPECT_TRUE(
        std::regex_search(tap, std::regex("\\b" + name + "\\([^;]*\\)\\s*(const\\s+)?override;")))
        << name << " is not forwarded";
}

// Calls back when asked to; its collectives complete when the test says so.
class Probe final : public c10d::Backend {
 public:
  Probe() : Backend(0, 2) {}
  const std::string getBackendName() const override { return "probe"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&,
                                           const c10d::AllreduceOptions&) override {
    if (on_allreduce) on_allreduce();
    return c10d::Work::create_from_future(future);
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>&,
                                           const c10d::BroadcastOptions&) override {
    throw std::runtime_error("the backend refuses");
  }
  std::function<void()> on_allreduce;
  c10::intrusive_ptr<c10::ivalue::Future> future =
      c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get());
};

class TapTest : public ::testing::Test {
 protected:
  std::vector<Collective> seen() const {
    const auto frames = JournalView(memory_.bytes()).frames();
    return History({rank_history(frames, "here")}).collectives(0);
  }

  SharedMemory memory_{1 << 16};
  JournalWriter journal_{memory_.bytes()};
  Injector injector_{{{.kind = InjectionKind::throw_, .rank = 0, .collective = 3}}, 0, journal_};
  CallSites sites_{journal_, false};
  std::shared_ptr<TapLog> log_ = std::make_shared<TapLog>("world", journal_, injector_, sites_);
  c10::intrusive_ptr<Probe> probe_ = c10::make_intrusive<Probe>();
  c10::intrusive_ptr<Tap> tap_ = c10::make_intrusive<Tap>(probe_, log_);
  std::vector<at::Tensor> tensors_{torch::ones({2, 3}), torch::ones({4})};
};

TEST_F(TapTest, ACollectiveIsOnRecordBeforeTheBackendSeesIt) {
  std::vector<Collective> at_issue;
  probe_->on_allreduce = [&] { at_issue = seen(); };
  tap_->allreduce(tensors_, {});
  ASSERT_EQ(at_issue.size(), 1u);
  EXPECT_EQ(at_issue[0], (Collective{.op = "allreduce",
                                     .group = "world",
                                     .dtype = "float32",
                                     .sequence = 0,
                                     .elements = 10,
                                     .root = -1}));
}

TEST_F(TapTest, ItIsDoneWhenItsFutureIs) {
  const auto work = tap_->allreduce(tensors_, {});
  EXPECT_FALSE(seen()[0].done);
  probe_->future->markCompleted(c10::IValue());
  EXPECT_TRUE(seen()[0].done);
  log_->settle();
  EXPECT_EQ(JournalView(memory_.bytes()).frames().frames.size(), 2u) << "recorded once";
}

TEST_F(TapTest, OneThatFailsIsNeverDone) {
  const auto work = tap_->allreduce(tensors_, {});
  probe_->future->setError(std::make_exception_ptr(std::runtime_error("connection closed")));
  log_->settle();
  EXPECT_FALSE(seen()[0].done);
}

TEST_F(TapTest, OneThatTheBackendRefusesIsOnRecordWithItsRoot) {
  c10d::BroadcastOptions options;
  options.rootRank = 1;
  EXPECT_THROW(tap_->broadcast(tensors_, options), std::runtime_error);
  EXPECT_EQ(seen()[0].op, "broadcast");
  EXPECT_EQ(seen()[0].root, 1);
}

TEST_F(TapTest, SequenceNumbersCountAllCollectivesOfAGroup) {
  EXPECT_THROW(tap_->broadcast(tensors_, {}), std::runtime_error);
  tap_->allreduce(tensors_, {});
  EXPECT_THROW(tap_->barrier({}), c10::Error) << "the probe has none";
  ASSERT_EQ(seen().size(), 3u);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(seen()[static_cast<size_t>(i)].sequence, i);
  const auto other = log_->for_group("half");
  EXPECT_EQ(other->issue({.op = "allreduce", .inputs = {}, .outputs = {}}).collective.sequence, 0);
}

TEST_F(TapTest, AnInjectionStrikesBeforeItsCollectiveIsIssued) {
  for (int i = 0; i < 3; ++i) tap_->allreduce(tensors_, {});
  EXPECT_THROW(tap_->allreduce(tensors_, {}), InjectedError);
  EXPECT_EQ(seen().size(), 3u);
}

TEST_F(TapTest, GoesByTheNameOfWhatItWraps) {
  EXPECT_EQ(tap_->getBackendName(), "probe");
}

}  // namespace
}  // namespace lockstep
