#include "recorder/cpp/backward_hooks.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <mutex>

namespace lockstep {

namespace {

// Note [Behind the end of a pass] Code that averages gradients does so in a callback that it queues
// during the pass, or in one that such a callback queues. Autograd runs callbacks in the order in
// which they were queued, so that one which queues itself again so many times runs behind those of
// as many generations.
constexpr int kGenerations = 8;

void call_behind(int generations, std::function<void()> act) {
  torch::autograd::Engine::get_default_engine().queue_callback([generations, act = std::move(act)] {
    if (generations == 0) return act();
    call_behind(generations - 1, act);
  });
}

}  // namespace

// Gradients come on a thread for each device.
struct BackwardHooks::Pass : std::enable_shared_from_this<Pass> {
  explicit Pass(Listener what) : listener(std::move(what)) {}

  // An exception destroys a pass and with it `token`, so that the next gradient begins another.
  void on_gradient() {
    std::shared_ptr<int> mine;
    {
      const std::lock_guard lock(mutex);
      if (!token.expired()) return;
      mine = std::make_shared<int>();
      token = mine;
    }
    listener.on_begin();
    call_behind(kGenerations, [self = shared_from_this(), mine] {
      {
        const std::lock_guard lock(self->mutex);
        self->token.reset();
      }
      self->listener.on_end();
    });
  }

  const Listener listener;
  std::mutex mutex;
  std::weak_ptr<int> token;  // of the pass under way
};

class BackwardHooks::Hook final : public torch::autograd::FunctionPostHook {
 public:
  explicit Hook(std::shared_ptr<Pass> pass) : pass_(std::move(pass)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    pass_->on_gradient();
    return outputs;
  }

 private:
  std::shared_ptr<Pass> pass_;
};

BackwardHooks::BackwardHooks(const std::vector<at::Tensor>& parameters, Listener listener)
    : pass_(std::make_shared<Pass>(std::move(listener))) {
  for (const auto& parameter : parameters) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
    const auto key = accumulator->add_post_hook(std::make_unique<Hook>(pass_));
    hooks_.emplace_back(std::move(accumulator), key);
  }
}

BackwardHooks::~BackwardHooks() {
  for (const auto& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
}

}  // namespace lockstep
