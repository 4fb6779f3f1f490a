#include "reports/pictures/markup.h"

#include "harness/base/characters.h"

#include <stdexcept>

namespace lockstep::reports {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : legible(text)) switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += letter;
    }
  return out;
}

void Markup::begin(std::string_view tag, const Attributes& attributes) {
  out_ += "<" + std::string(tag);
  for (const auto& [name, value] : attributes)
    out_ += " " + std::string(name) + "=\"" + escaped(value) + "\"";
}

Markup& Markup::open(std::string_view tag, const Attributes& attributes) {
  begin(tag, attributes);
  out_ += ">";
  open_.emplace_back(tag);
  return *this;
}

Markup& Markup::close() {
  if (open_.empty()) throw std::logic_error("no element is open");
  out_ += "</" + open_.back() + ">\n";
  open_.pop_back();
  return *this;
}

Markup& Markup::text(std::string_view text) {
  out_ += escaped(text);
  return *this;
}

Markup& Markup::name(std::string_view name) {
  for (const char letter : escaped(name)) {
    out_ += letter;
    if (letter == '.' || letter == '_') out_ += "<wbr/>";
  }
  return *this;
}

Markup& Markup::element(std::string_view tag, const Attributes& attributes, std::string_view text) {
  return open(tag, attributes).text(text).close();
}

Markup& Markup::empty(std::string_view tag, const Attributes& attributes) {
  begin(tag, attributes);
  out_ += "/>\n";
  return *this;
}

Markup& Markup::raw(std::string_view markup) {
  out_ += markup;
  return *this;
}

std::string Markup::take() {
  if (!open_.empty()) throw std::logic_error("the element " + open_.back() + " is still open");
  return std::move(out_);
}

}  // namespace lockstep::reports
