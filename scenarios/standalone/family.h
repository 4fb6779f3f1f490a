// A family of scenarios describes its cases: in Python and in words.
#pragma once

#include "harness/base/fields.h"
#include "scenarios/standalone/python.h"

#include <functional>

namespace lockstep::scenarios::standalone {

struct Family {
  const char* scenario;
  // Throws NotWritten. Empty: its cases are said in words alone.
  std::function<Python(const Json& value)> python;
  std::function<std::string(const Json& value)> in_words;
};
using Families = std::vector<Family>;

// A family of a scenario whose cases are of type C.
template <class C>
Family said(const char* scenario, Python (*python)(const C& c),
            std::string (*in_words)(const C& c)) {
  Family out{scenario, {}, [in_words](const Json& value) {
               return in_words(from_json<C>(value, "case"));
             }};
  if (python)
    out.python = [python](const Json& value) { return python(from_json<C>(value, "case")); };
  return out;
}
template <class C>
Family said(const char* scenario, std::string (*in_words)(const C& c)) {
  return said<C>(scenario, nullptr, in_words);
}

Families accumulation();
Families buffers();
Families described();
Families errors();
Families evaluation();
Families joins();
Families loops();
Families norms();
Families programs();
Families replicas();
Families samplers();
Families trainings();

}  // namespace lockstep::scenarios::standalone
