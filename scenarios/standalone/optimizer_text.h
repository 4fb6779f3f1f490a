// The optimizers of cases (averaging::made) as PyTorch's: a class and its arguments.
#pragma once

#include "scenarios/cases/words.h"

#include <string>

namespace lockstep::scenarios {

inline std::string optimizer_text(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::momentum:
      return "torch.optim.SGD, lr=0.1, momentum=0.9";
    case OptimizerKind::adam:
      return "torch.optim.Adam, lr=0.01";
    case OptimizerKind::adamw:
      return "torch.optim.AdamW, lr=0.01";
    case OptimizerKind::amsgrad:
      return "torch.optim.Adam, lr=0.01, amsgrad=True";
    case OptimizerKind::adagrad:
      return "torch.optim.Adagrad, lr=0.01";
    case OptimizerKind::rmsprop:
      return "torch.optim.RMSprop, lr=0.01, momentum=0.5";
    default:
      return "torch.optim.SGD, lr=0.1";
  }
}

}  // namespace lockstep::scenarios
