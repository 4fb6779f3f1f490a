#include "harness/cuda/nccl.h"

#include "harness/cuda/plugin/plugin.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <algorithm>
#include <array>
#include <dlfcn.h>
#include <filesystem>
#include <stdexcept>
#include <typeinfo>

namespace lockstep::cuda {

namespace {

// c10's messages go on with a stack.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

constexpr const char* kPluginFile = "liblockstep_harness_nccl.so";

struct Loaded {
  const NcclPlugin* plugin = nullptr;
  NcclLibrary library;
};

// The loader's message about a library that it found but cannot load begins with the file it lacks.
std::string problem_of_loading(const std::string& why) {
  if (why.starts_with(std::string(kPluginFile) + ":"))
    return std::string(kPluginFile) + " is not where the loader of this program looks";
  const bool lacks_another = why.find(kPluginFile) == std::string::npos;
  return "LibTorch's CUDA part cannot be loaded (" + why + ")" +
         (lacks_another ? ": the libraries of NVIDIA that LibTorch needs are not installed" : "");
}

Loaded without(const std::string& problem) {
  return {.plugin = nullptr, .library = {.problem = problem, .version = ""}};
}

Loaded load() {
  if (!nccl_is_built())
    return without("this Lockstep was built without NCCL (" + nccl_build_reason() + ")");
  void* const handle = ::dlopen(kPluginFile, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return without(problem_of_loading(why != nullptr ? why : "no reason given"));
  }
  // LibTorch keeps the first answer.
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  if (typeid(hooks) == typeid(at::CUDAHooksInterface))
    return without(
        "LibTorch was asked for CUDA before libtorch_cuda was loaded, and keeps its answer: call "
        "lockstep::main() before anything of LibTorch");
  using Ask = const NcclPlugin* (*)();
  const auto ask = reinterpret_cast<Ask>(::dlsym(handle, kNcclPluginSymbol));
  if (ask == nullptr) return without(std::string(kPluginFile) + " was not made for this program");
  const auto [major, minor, patch] = ask()->nccl_version();
  const std::string version =
      std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  return {.plugin = ask(),
          .library = {.problem = "", .version = version, .major = major, .minor = minor}};
}

const Loaded& loaded_once() {
  static const Loaded loaded = [] {
    try {
      return load();
    } catch (const std::exception& error) {
      return without(first_line(error));
    }
  }();
  return loaded;
}

}  // namespace

bool may_have_gpu() {
  // The driver's; Windows' under WSL; Tegra's.
  constexpr std::array kFiles{"/dev/nvidiactl",       "/dev/dxg",   "/dev/nvhost-ctrl",
                              "/dev/nvhost-ctrl-gpu", "/dev/nvgpu", "/dev/nvmap"};
  return std::any_of(kFiles.begin(), kFiles.end(), [](const char* file) {
    std::error_code none;
    return std::filesystem::exists(file, none);
  });
}

const NcclLibrary& load_nccl() {
  return loaded_once().library;
}

Gpus usable_gpus() {
  const Loaded& loaded = loaded_once();
  Gpus gpus{.names = {}, .model = "", .problem = loaded.library.problem};
  if (loaded.plugin == nullptr) return gpus;
  try {
    gpus.names = loaded.plugin->gpus();
    gpus.model = loaded.plugin->first_gpus_model();
  } catch (const std::exception& error) {
    gpus.problem =
        may_have_gpu() ? first_line(error) : "this machine has no NVIDIA GPU, or no driver for it";
  }
  return gpus;
}

c10::intrusive_ptr<c10d::Backend> connected_nccl_backend(const NcclRank& place) {
  const Loaded& loaded = loaded_once();
  if (loaded.plugin == nullptr) throw std::runtime_error(loaded.library.problem);
  return loaded.plugin->connect(place);
}

}  // namespace lockstep::cuda
