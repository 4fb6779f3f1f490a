#include "ddp/backend/nccl.h"

#include "ddp/backend/gpu_device_files.h"
#include "ddp/backend/nccl/plugin.h"
#include "ddp/backend/nccl_built.h"
#include "ddp/backend/nccl_settings.h"
#include "ddp/base/waiting.h"
#include "ddp/errors.h"
#include "ddp/version.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/util/env.h>
#include <torch/version.h>

#include <dlfcn.h>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <typeinfo>

namespace lockstep {

namespace {

constexpr const char* kPluginFile = "liblockstep_nccl.so";
constexpr std::chrono::seconds kAbortPatience{10};

struct Loaded {
  const NcclPlugin* plugin = nullptr;
  NcclLibrary library;
};

// The loader's message about a library that it found but cannot load begins with the file it lacks.
std::string open_plugin(void*& handle) {
  handle = ::dlopen(kPluginFile, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return "";
  const char* const said = ::dlerror();
  const std::string why = said != nullptr ? said : "no reason given";
  if (!why.starts_with(std::string(kPluginFile) + ":")) return why;
  std::error_code none;
  const auto beside =
      std::filesystem::read_symlink("/proc/self/exe", none).replace_filename(kPluginFile);
  if (!std::filesystem::exists(beside, none)) return why;
  handle = ::dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return "";
  const char* const said_then = ::dlerror();
  return said_then != nullptr ? said_then : why;
}

Loaded load() {
  Loaded loaded;
  std::string& problem = loaded.library.problem;
  if (!nccl_is_built()) {
    problem = "this Lockstep was built without NCCL (" + nccl_build_reason() + ")";
    return loaded;
  }
  void* handle = nullptr;
  const std::string why = open_plugin(handle);
  if (!why.empty()) {
    problem = "LibTorch's CUDA part cannot be loaded (" + why + ")";
    if (why.starts_with(std::string(kPluginFile) + ":")) {
      problem =
          std::string(kPluginFile) + " is neither beside this program nor where its loader looks";
    } else if (why.find(kPluginFile) == std::string::npos) {
      problem += ": the libraries of NVIDIA that LibTorch needs are not installed";
    }
    return loaded;
  }
  using Ask = const NcclPlugin* (*)();
  const auto ask = reinterpret_cast<Ask>(::dlsym(handle, kNcclPluginSymbol));
  const NcclPlugin* const plugin = ask != nullptr ? ask() : nullptr;
  const std::string expected = "Lockstep " + version() + " on PyTorch " TORCH_VERSION;
  if (plugin == nullptr || plugin->made_for != expected) {
    problem = std::string(kPluginFile) + " was made for " +
              (plugin != nullptr ? plugin->made_for : "something else") +
              ", and this program for " + expected;
    return loaded;
  }
  // Note [CUDA is queried once]
  // LibTorch keeps the answer. If the first query came before libtorch_cuda was loaded, CUDA
  // tensors cannot be made although all of CUDA is loaded.
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  if (typeid(hooks) == typeid(at::CUDAHooksInterface)) {
    problem =
        "LibTorch was asked for CUDA before libtorch_cuda was loaded, and keeps its answer: "
        "link lockstep::nccl, or call lockstep::load_nccl() first thing in main";
    return loaded;
  }
  loaded.plugin = plugin;
  loaded.library.version = plugin->nccl_version();
  loaded.library.cuda_version = plugin->cuda_version();
  return loaded;
}

const Loaded& loaded_once() {
  static const Loaded loaded = [] {
    try {
      return load();
    } catch (const std::exception& error) {
      Loaded failed;
      failed.library.problem = first_line(error);
      return failed;
    }
  }();
  return loaded;
}

const NcclPlugin& usable_plugin() {
  const Loaded& loaded = loaded_once();
  if (loaded.plugin == nullptr) throw std::runtime_error(loaded.library.problem);
  return *loaded.plugin;
}

}  // namespace

const NcclLibrary& load_nccl() {
  return loaded_once().library;
}

bool may_have_gpu() {
  std::error_code none;
  for (const char* const file : kGpuDeviceFiles) {
    if (std::filesystem::exists(file, none)) return true;
  }
  return false;
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

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size, int device_index,
                                                    std::chrono::milliseconds timeout) {
  const NcclPlugin& plugin = usable_plugin();
  for (const auto& [name, value] : nccl_settings(process_environment, timeout))
    c10::utils::set_env(name.c_str(), value.c_str());
  return plugin.make({.store = store,
                      .rank = rank,
                      .world_size = world_size,
                      .device_index = device_index,
                      .timeout = timeout});
}

void connect_nccl(const c10::intrusive_ptr<c10d::Backend>& backend, int device_index,
                  std::chrono::milliseconds time, const std::function<std::string()>& peer_error) {
  usable_plugin().connect(*backend, device_index, time, peer_error);
}

std::string failure_of(c10d::Backend& backend) {
  if (backend.getBackendName() != "nccl") return "";
  switch (backend.getError()) {
    case c10d::ErrorType::SUCCESS:
      return "";
    case c10d::ErrorType::TIMEOUT:
      return "NCCL aborted its operations, since one of them passed its timeout";
    case c10d::ErrorType::COMM_ERROR:
      return "NCCL aborted its operations after an error: a peer died, or the network or the GPU "
             "failed";
    case c10d::ErrorType::REMOTE_ERROR:
      return "NCCL aborted its operations, since a peer reported an error";
  }
  return "NCCL aborted its operations";
}

bool abort_backend(const c10::intrusive_ptr<c10d::Backend>& backend) {
  if (!backend || backend->getBackendName() == "gloo") return true;
  const DetachableCall abort([backend] { backend->abort(); });
  // An exception means that it was over, or could not be ended: there is nothing more to do.
  return abort.wait_until(deadline_in(kAbortPatience));
}

}  // namespace lockstep
