// The interpreter of this process, and what every call into it needs.
#pragma once

#include "harness/pytorch/plugin/plugin.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <exception>
#include <string>
#include <utility>

namespace lockstep::pytorch {

void start_interpreter(const std::string& folder);

// A name of lockstep_adapter.py. The caller holds the lock.
py::object adapter(const char* name);

// Throws what `error` stands for: Refused, the C++ exception that a model threw, or a PythonError.
[[noreturn]] void rethrow(py::error_already_set& error);

// Raises in Python what is being thrown in C++, so that rethrow() throws it again.
[[noreturn]] void raise_current_exception();

// Runs `body` with the lock; what Python raises is thrown as above.
template <class Body>
auto in_python(Body&& body) {
  const py::gil_scoped_acquire lock;
  try {
    return std::forward<Body>(body)();
  } catch (py::error_already_set& error) {
    rethrow(error);
  }
}

// The first member of an object that has Python objects. As it is destroyed, after those and also
// where the constructor throws, this thread forgets its groups, and what refers to itself in a
// circle goes now, and not in a later case.
class LetsGo {
 public:
  LetsGo() = default;
  ~LetsGo();
  LetsGo(const LetsGo&) = delete;
  LetsGo& operator=(const LetsGo&) = delete;
};

// A Python object that may be destroyed without the lock.
class Kept {
 public:
  explicit Kept(py::object object) : object_(std::move(object)) {}
  ~Kept() {
    const py::gil_scoped_acquire lock;
    object_ = py::object();
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  const py::object& operator*() const { return object_; }
  const py::object* operator->() const { return &object_; }

 private:
  py::object object_;
};

}  // namespace lockstep::pytorch
