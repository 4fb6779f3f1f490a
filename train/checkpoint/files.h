#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace lockstep {

// Replaces the file `path` by what `produce` gives to its argument, so that after a crash at any
// moment `path` is the file before or the new one, whole, and the new one once this has returned:
// the bytes go to `path`.partial, a new file, which is renamed when the disk has all of them.
// Anything else of that name is refused, unless a killed process left it. `keep_last` files are
// kept, older ones as `path`.1, `path`.2 and so on; with `is_best` the new one is `path`.best too.
// Where one of these names is a device, a pipe, a socket or a folder, nothing is written; a link is
// replaced. Local; blocks. Throws std::runtime_error with what failed; `path` is then the file
// before.
using Write = std::function<void(const void* bytes, std::size_t size)>;
void replace_file(const std::string& path, const std::function<void(const Write& write)>& produce,
                  int keep_last, bool is_best);

}  // namespace lockstep
