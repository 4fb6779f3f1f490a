// Checks what convert_sync_batchnorm() and the way back refuse: all at once, by path, with nothing
// changed. And which layer a converted one is to its ranks.
#include "ddp/batch_norm.h"
#include "ddp/convert_sync_batchnorm.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/sync_batch_norm.h"
#include "tests/ddp/forked_world.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

namespace lockstep {
namespace {

using testing::Group;
using testing::run_world;
using testing::same;

struct Block : torch::nn::Module {
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(2));
};

struct OwnNorm : torch::nn::BatchNorm1dImpl {
  using torch::nn::BatchNorm1dImpl::BatchNorm1dImpl;
};

struct HandWritten : torch::nn::Module {
  HandWritten() {
    for (const char* const name : {"running_mean", "running_var", "num_batches_tracked"})
      register_buffer(name, torch::zeros({1}));
  }
};

// With one of each that can be converted, so that something could change.
torch::nn::ModuleList model_with(const std::shared_ptr<torch::nn::Module>& what) {
  torch::nn::Sequential good(torch::nn::BatchNorm1d(1), BatchNorm1d(1));
  torch::nn::ModuleList net(good);
  net->push_back(what);
  return net;
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

// The refusal to convert a model with `what` behind its layers, and proof that nothing has changed.
std::string refusal_with(const std::shared_ptr<torch::nn::Module>& what) {
  const auto reports = run_world(1, [&](const Group& group) {
    const auto net = model_with(what);
    const std::string before = c10::str(*net);
    const std::string said = refusal([&] { convert_sync_batchnorm(net, group); });
    return said == "accepted" || c10::str(*net) == before ? said : "changed " + c10::str(*net);
  });
  return reports[0];
}

std::string member_of(const std::string& type, const std::string& dimension) {
  return "is a member of " + type + ", whose pointer to its torch::nn::BatchNorm" + dimension +
         " nobody can change: declare it there as lockstep::BatchNorm" + dimension;
}

constexpr const char* kBlock = "lockstep::(anonymous namespace)::Block";

TEST(ConvertRefuses, AMemberOfAClassNamingAllOfThem) {
  EXPECT_EQ(refusal_with(torch::nn::ModuleList(std::make_shared<Block>(), torch::nn::Linear(1, 1),
                                               std::make_shared<Block>())
                             .ptr()),
            "convert_sync_batchnorm changed nothing: '1.0.norm' " + member_of(kBlock, "2d") +
                "; '1.2.norm' " + member_of(kBlock, "2d"));
}

TEST(ConvertRefuses, AMemberThatIsAnElementElsewhere) {
  const auto block = std::make_shared<Block>();
  torch::nn::ModuleList net(block->norm, block);
  EXPECT_EQ(refusal_with(net.ptr()),
            "convert_sync_batchnorm changed nothing: '1.1.norm' " + member_of(kBlock, "2d"));
}

TEST(ConvertRefuses, AMemberOfAClassDerivedFromAContainer) {
  struct Derived : torch::nn::SequentialImpl {
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(1));
  };
  const std::string said = refusal_with(std::make_shared<Derived>());
  EXPECT_NE(said.find("'1.norm' is a member of "), std::string::npos) << said;
}

TEST(ConvertRefuses, ClassesOfOnesOwn) {
  const auto text = [](const std::string& type) {
    return "convert_sync_batchnorm changed nothing: '1' is a lockstep::(anonymous namespace)::" +
           type +
           ", which may do anything in forward: put a lockstep::BatchNorm1d, 2d or 3d there, or "
           "derive it from one's Impl";
  };
  EXPECT_EQ(refusal_with(std::make_shared<OwnNorm>(1)), text("OwnNorm"));
  EXPECT_EQ(refusal_with(std::make_shared<HandWritten>()), text("HandWritten"));
}

TEST(ConvertRefuses, NoInstanceNormAndNoLayerThatNormalisesByNoBatch) {
  EXPECT_EQ(refusal_with(torch::nn::InstanceNorm2d(
                             torch::nn::InstanceNorm2dOptions(2).track_running_stats(true))
                             .ptr()),
            "accepted");
  EXPECT_EQ(refusal_with(torch::nn::GroupNorm(1, 2).ptr()), "accepted");
}

// ModuleList::insert registers what it inserts, and forgets to renumber what it moves.
TEST(ConvertRefuses, AnElementThatIsNotRegistered) {
  const std::string sentence =
      " is called by its container and not registered there, as after replace_module or "
      "ModuleList::insert";
  torch::nn::ModuleList inserted(torch::nn::BatchNorm1d(1), torch::nn::Linear(1, 1));
  inserted->insert(0, torch::nn::ReLU());
  EXPECT_EQ(refusal_with(inserted.ptr()),
            "convert_sync_batchnorm changed nothing: '1.1'" + sentence);
  torch::nn::Sequential by_hand(torch::nn::BatchNorm1d(1));
  by_hand->replace_module("0", SyncBatchNorm({.num_features = 1}));
  EXPECT_EQ(refusal_with(by_hand.ptr()),
            "convert_sync_batchnorm changed nothing: '1.0'" + sentence);
}

TEST(ConvertRefuses, OptionsOutsideTheRangeOfSyncBatchNorms) {
  const auto norm = torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(1).momentum(1.5));
  EXPECT_EQ(
      refusal_with(norm.ptr()),
      "convert_sync_batchnorm changed nothing: '1': momentum is 1.5, expected 0 to 1 or none");
  EXPECT_EQ(refusal_with(BatchNorm1d(torch::nn::BatchNorm1dOptions(1).eps(-1)).ptr()),
            "convert_sync_batchnorm changed nothing: '1': eps is -1, expected 0 or more");
}

TEST(ConvertRefuses, NoModelNoGroupAndNoTime) {
  const auto reports = run_world(1, [](const Group& group) {
    const auto net = model_with(torch::nn::ReLU().ptr());
    const std::string before = c10::str(*net);
    const std::shared_ptr<torch::nn::Module> none;
    return refusal([&] { convert_sync_batchnorm(net, nullptr); }) + " | " +
           refusal([&] { convert_sync_batchnorm(none, group); }) + " | " +
           refusal([&] { revert_sync_batchnorm(none); }) + " | " + refusal([&] {
             convert_sync_batchnorm(torch::nn::ReLU(), group, std::chrono::milliseconds(0));
           }) +
           (c10::str(*net) == before ? "" : " changed");
  });
  EXPECT_EQ(reports,
            same(1,
                 "convert_sync_batchnorm: the group is null, expected that of the ranks that train "
                 "together | convert_sync_batchnorm: the model is null | revert_sync_batchnorm: "
                 "the model is null | timeout is 0 ms, expected a positive time"));
}

TEST(RevertRefuses, ASyncBatchNormThatNeverWasABatchNorm) {
  const auto reports = run_world(1, [](const Group& group) {
    const auto net = model_with(SyncBatchNorm({.num_features = 1}).ptr());
    convert_sync_batchnorm(net, group);
    const std::string before = c10::str(*net);
    return refusal([&] { revert_sync_batchnorm(net); }) +
           (c10::str(*net) == before ? "" : "changed");
  });
  EXPECT_EQ(reports,
            same(1,
                 "revert_sync_batchnorm changed nothing: '1' is a SyncBatchNorm that never "
                 "was a BatchNorm"));
}

TEST(RevertRefuses, ALayerThatWasMadeAMember) {
  struct Holder : torch::nn::Module {
    explicit Holder(const std::shared_ptr<torch::nn::Module>& norm) {
      register_module("norm", norm);
    }
  };
  const auto reports = run_world(1, [](const Group& group) {
    torch::nn::Sequential net(torch::nn::BatchNorm1d(1));
    convert_sync_batchnorm(net, group);
    return refusal([&] { revert_sync_batchnorm(std::make_shared<Holder>(net->ptr(0))); });
  });
  EXPECT_EQ(reports[0].find("revert_sync_batchnorm changed nothing: 'norm' is a member of "), 0U)
      << reports[0];
}

// Two layers of equal settings, which rank 1 calls in the other order.
struct Pair : torch::nn::Module {
  torch::nn::ModuleList norms = register_module("norms", torch::nn::ModuleList());
  torch::nn::Linear out = register_module("out", torch::nn::Linear(2, 1));

  at::Tensor forward(const at::Tensor& input, std::size_t first) {
    const auto call = [&](std::size_t index, const at::Tensor& x) {
      auto* const sync = norms[index]->as<SyncBatchNormImpl>();
      return sync != nullptr ? sync->forward(x) : norms[index]->as<BatchNorm1d>()->forward(x);
    };
    return out->forward(call(1 - first, call(first, input)));
  }
};

TEST(Names, DistinguishLayersOfEqualSettings) {
  for (const std::string way : {"made", "converted", "switched"}) {
    const auto reports = run_world(2, [&](const Group& group) {
      const auto net = std::make_shared<Pair>();
      for (int i = 0; i < 2; ++i) {
        if (way == "made") {
          net->norms->push_back(SyncBatchNorm({.num_features = 2, .process_group = group}));
        } else if (way == "converted") {
          net->norms->push_back(torch::nn::BatchNorm1d(2));
        } else {
          net->norms->push_back(BatchNorm1d(2));
        }
      }
      if (way != "made") convert_sync_batchnorm(net, group);
      DistributedDataParallel ddp(net, {.process_group = group});
      ddp.forward(torch::ones({2, 2}), static_cast<std::size_t>(group->getRank()));
      return std::string("no error");
    });
    EXPECT_EQ(reports, same(2,
                            "DisagreementError: ranks disagree on the name of a SyncBatchNorm: "
                            "rank 0 has 'norms.0'; rank 1 has 'norms.1'"))
        << way;
  }
}

TEST(Names, GivenByAConversionStayUnderDdp) {
  const auto reports = run_world(1, [](const Group& group) {
    torch::nn::Sequential inner(BatchNorm1d(2));
    convert_sync_batchnorm(inner, group);
    torch::nn::ModuleList outer(inner);
    DistributedDataParallel ddp(outer, {.process_group = group});
    inner->forward(torch::ones({1}));
    return std::string("no error");
  });
  EXPECT_NE(reports[0].find("the input of BatchNorm1d '0' has shape [1]"), std::string::npos)
      << reports[0];
}

TEST(Names, LoggingDataKnowsSwitchedLayers) {
  const auto reports = run_world(1, [](const Group& group) {
    torch::nn::Sequential net(BatchNorm1d(2));
    DistributedDataParallel ddp(net, {.process_group = group});
    const bool before = ddp->logging_data().has_sync_bn;
    convert_sync_batchnorm(ddp, group);
    const bool between = ddp->logging_data().has_sync_bn;
    revert_sync_batchnorm(ddp);
    return c10::str(before, between, ddp->logging_data().has_sync_bn);
  });
  EXPECT_EQ(reports, same(1, "010"));
}

TEST(Names, LoggingDataKnowsLayersMadeAsSyncBatchNorm) {
  const auto reports = run_world(1, [](const Group& group) {
    const SyncBatchNorm layer({.num_features = 2});
    torch::nn::Sequential net(torch::nn::Linear(2, 2), layer);
    DistributedDataParallel alone(layer, {.process_group = group});
    DistributedDataParallel within(net, {.process_group = group});
    return c10::str(alone->logging_data().has_sync_bn, within->logging_data().has_sync_bn);
  });
  EXPECT_EQ(reports, same(1, "11"));
}

}  // namespace
}  // namespace lockstep
