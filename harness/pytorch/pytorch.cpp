#include "harness/pytorch/pytorch.h"

#include "harness/process/interpreter_lock.h"
#include "harness/process/start_program.h"
#include "harness/pytorch/built.h"
#include "harness/pytorch/loaded.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <link.h>
#include <string_view>

namespace lockstep::pytorch {

namespace {

constexpr const char* kPluginFile = "liblockstep_pytorch.so";
constexpr const char* kRestarted = "LOCKSTEP_STARTED_ANEW_FOR_PYTORCH";

const Plugin* plugin = nullptr;

Built& here() {
  static Built found = built();
  return found;
}

std::string libraries() {
  return here().torch + "/lib";
}

// The file of LibTorch that the loader took; empty: none.
std::string libtorch_of_this_process() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto path = line.find('/');
    // Debian's has its version behind the name.
    if (path != std::string::npos && line.find("/libtorch_cpu.so", path) != std::string::npos)
      return line.substr(path);
  }
  return "";
}

// As PyTorch's own file has it, such as "2.11.0+cu130"; empty: it is not there.
std::string release_in(const std::string& torch) {
  constexpr std::string_view kBefore = "__version__ = '";
  std::ifstream file(torch + "/version.py");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(kBefore))
      return line.substr(kBefore.size(), line.find('\'', kBefore.size()) - kBefore.size());
  return "";
}

// Releases of one series, such as "2.11", have one layout.
std::string series_of(const std::string& release) {
  return release.substr(0, release.find('.', release.find('.') + 1));
}

std::vector<std::string> arguments_of_this_process() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

// Returns only where it fails: why.
std::string start_anew() {
  put_first("LD_LIBRARY_PATH", libraries());
  setenv(kRestarted, "1", 1);
  std::fflush(nullptr);
  return become_program(std::filesystem::read_symlink("/proc/self/exe"),
                        arguments_of_this_process());
}

void have_its_libtorch() {
  std::error_code none;
  const auto taken = libtorch_of_this_process();
  if (std::filesystem::equivalent(taken, libraries() + "/libtorch_cpu.so", none)) return;
  if (here().is_hosted || std::getenv(kRestarted) != nullptr)
    throw std::runtime_error("PyTorch needs its own LibTorch, of " + libraries() +
                             ", and the loader takes " + taken + ": unset LD_PRELOAD");
  throw std::runtime_error("this program could not be started anew with PyTorch's LibTorch: " +
                           start_anew());
}

std::string file_of(void* library) {
  link_map* map = nullptr;
  const bool is_known = ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && *map->l_name != '\0';
  return is_known ? map->l_name : kPluginFile;
}

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

const Plugin* plugin_of_file() {
  void* const handle = ::dlopen(kPluginFile, RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    throw std::runtime_error(std::string(kPluginFile) +
                             " cannot be loaded: " + (why != nullptr ? why : "no reason given"));
  }
  const auto version = symbol<const char* (*)()>(handle, kVersionSymbol);
  const auto ask = symbol<const Plugin* (*)()>(handle, kPluginSymbol);
  if (version == nullptr || ask == nullptr || version() != here().version)
    throw std::runtime_error(file_of(handle) +
                             " is of another version than this program: build both again, with "
                             "./lockstep build");
  return ask();
}

}  // namespace

std::string why_not(const Built& built) {
  if (!built.is_built) return built.why;
  const auto now = release_in(built.torch);
  if (built.is_hosted) {
    if (series_of(now) == series_of(built.release)) return "";
    return "PyTorch in " + built.environment + " is " + (now.empty() ? "not installed" : now) +
           ", and this package of Lockstep was built with " + built.release +
           ": install the Lockstep of that release";
  }
  if (now.empty())
    return "PyTorch is no longer in " + built.environment +
           ": ./lockstep setup --peer installs it again";
  if (now != built.release)
    return "PyTorch in " + built.environment + " is " + now + ", and this program was built with " +
           built.release + ": ./lockstep build builds it with what is there";
  return "";
}

std::string why_not() {
  return why_not(here());
}

void be_hosted(const std::string& environment, const std::string& torch) {
  here().is_hosted = true;
  here().environment = environment;
  here().torch = torch;
}

void open(const std::string& file) {
  if (const auto wrong = loaded().open(file); !wrong.empty()) throw std::runtime_error(wrong);
}

void load() {
  if (plugin != nullptr) return;
  if (const auto why = why_not(); !why.empty()) throw std::runtime_error(why);
  have_its_libtorch();
  const auto* const found = plugin_of_file();
  found->start(here().environment);
  plugin = found;
  set_interpreter_lock({.release = plugin->release_lock, .take = plugin->take_lock});
}

std::string version() {
  return plugin != nullptr ? plugin->version() : "";
}

const Plugin& loaded() {
  if (plugin == nullptr) throw std::logic_error("PyTorch was not loaded");
  return *plugin;
}

}  // namespace lockstep::pytorch
