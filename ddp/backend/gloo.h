#pragma once

#include "ddp/init.h"

namespace lockstep {

// A Gloo backend for `rank` of `world_size` that meets its peers in `store` and listens as
// `options` says (their store, rank and world_size are not looked at). Collective; blocks up to the
// timeout; throws c10::Error. Its threads answer a dead peer with an error, never with SIGPIPE.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    const InitOptions& options);

}  // namespace lockstep
