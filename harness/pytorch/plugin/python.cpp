#include "harness/pytorch/plugin/python.h"

#include "modules.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>

namespace lockstep::pytorch {

namespace {

// lockstep_adapter.py; never destroyed, as the interpreter.
py::object& adapter_module() {
  static auto* const module = new py::object();
  return *module;
}

// How Python names our own modules in its traces.
std::string file_of(const std::string& module) {
  return "<" + module + ">";
}

bool is_own(const std::string& file) {
  return std::any_of(std::begin(kModules), std::end(kModules),
                     [&](const Module& each) { return file == file_of(each.name); });
}

void import_own_modules() {
  const auto builtins = py::module_::import("builtins");
  const auto modules = py::module_::import("sys").attr("modules");
  for (const auto& [name, source] : kModules) {
    adapter_module() = py::module_::import("types").attr("ModuleType")(name);
    modules[name] = adapter_module();
    const auto compiled = builtins.attr("compile")(source, file_of(name), "exec");
    builtins.attr("exec")(compiled, adapter_module().attr("__dict__"));
  }
}

void check(const PyStatus& status, PyConfig& config) {
  if (PyStatus_Exception(status) == 0) return;
  const std::string why = status.err_msg != nullptr ? status.err_msg : "no reason given";
  PyConfig_Clear(&config);
  throw std::runtime_error("the Python interpreter did not start: " + why);
}

// Nothing of the environment reaches it. Hashes have one seed, so that sets have one order.
void initialize(const std::string& folder) {
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.install_signal_handlers = 0;
  config.buffered_stdio = 0;
  config.use_hash_seed = 1;
  config.hash_seed = 0;
  check(PyConfig_SetBytesString(&config, &config.executable, (folder + "/bin/python").c_str()),
        config);
  // The module `signal` handles SIGINT from its import on, whatever the configuration says: Ctrl-C
  // would raise KeyboardInterrupt in a file that is imported, or be ignored.
  struct sigaction before {};
  ::sigaction(SIGINT, nullptr, &before);
  check(Py_InitializeFromConfig(&config), config);
  PyConfig_Clear(&config);
  py::module_::import("signal");
  ::sigaction(SIGINT, &before, nullptr);
}

bool is_of_library(const std::string& file) {
  return file.starts_with("<") || file.find("/site-packages/") != std::string::npos ||
         file.find("/lib/python3") != std::string::npos;
}

// The line that raised it, of a user's file if there is one, else of PyTorch's.
std::string place_of(const py::error_already_set& error) {
  std::string innermost;
  bool is_of_user = false;
  py::object trace = error.trace() ? py::reinterpret_borrow<py::object>(error.trace())
                                   : py::reinterpret_borrow<py::object>(py::none());
  while (!trace.is_none()) {
    const auto code = trace.attr("tb_frame").attr("f_code");
    const auto file = code.attr("co_filename").cast<std::string>();
    const bool is_users = !is_own(file) && !is_of_library(file);
    if (is_users || (!is_of_user && !is_own(file)))
      innermost = file.substr(file.rfind('/') + 1) + ":" +
                  std::to_string(trace.attr("tb_lineno").cast<int>()) + ", in " +
                  code.attr("co_name").cast<std::string>();
    is_of_user |= is_users;
    trace = trace.attr("tb_next");
  }
  return innermost;
}

// LibTorch's stacks begin with this line; their addresses differ between runs.
std::string without_stack(const std::string& text) {
  return text.substr(0, text.find("\nException raised from "));
}

std::string described(const py::error_already_set& error) {
  const auto type = error.type().attr("__name__").cast<std::string>();
  const auto text = without_stack(py::str(error.value()).cast<std::string>());
  const auto place = place_of(error);
  return type + ": " + text + (place.empty() ? "" : " (" + place + ")");
}

constexpr const char* kCapsule = "a C++ exception";

}  // namespace

void start_interpreter(const std::string& folder) {
  // One thread for everything: ranks are forked from this process.
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  // In the package for Python, an interpreter runs already, and has let go of its lock.
  if (Py_IsInitialized() == 0) {
    initialize(folder);
    PyEval_SaveThread();
  }
  const py::gil_scoped_acquire lock;
  try {
    import_own_modules();
    adapter("warm_up")();
  } catch (py::error_already_set& error) {
    throw PythonError(described(error));
  }
}

py::object adapter(const char* name) {
  return adapter_module().attr(name);
}

LetsGo::~LetsGo() {
  const py::gil_scoped_acquire lock;
  try {
    adapter("let_go")();
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("letting go of what a case used");
  }
}

void rethrow(py::error_already_set& error) {
  if (error.matches(adapter("Refused"))) throw Refused(py::str(error.value()).cast<std::string>());
  if (error.matches(adapter("CppError"))) {
    const py::capsule held = error.value().attr("args")[py::int_(0)];
    std::rethrow_exception(*held.get_pointer<std::exception_ptr>());
  }
  throw PythonError(described(error));
}

void raise_current_exception() {
  const py::capsule held(new std::exception_ptr(std::current_exception()), kCapsule,
                         [](void* pointer) { delete static_cast<std::exception_ptr*>(pointer); });
  const auto type = adapter("CppError");
  PyErr_SetObject(type.ptr(), type(held).ptr());
  throw py::error_already_set();
}

}  // namespace lockstep::pytorch
