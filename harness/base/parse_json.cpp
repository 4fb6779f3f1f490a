#include "harness/base/parse_json.h"

#include "harness/base/text.h"

#include <algorithm>

namespace lockstep {

namespace {

// An object or a list whose end was not parsed yet. The fields of a finished object are in a vector
// whose elements cannot be moved, so it would copy them all each time that it grows.
struct Unfinished {
  bool is_object = false;
  std::string name;  // its name in the object around it
  std::vector<std::pair<std::string, Json>> fields;
  Json::array_t elements;
};

std::optional<std::string> name_that_comes_twice(const Unfinished& object) {
  std::vector<std::string_view> names;
  for (const auto& field : object.fields) names.push_back(field.first);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return std::string(*twice);
}

Json finished(Unfinished value) {
  if (!value.is_object) return Json(std::move(value.elements));
  Json::object_t object;
  object.reserve(value.fields.size());
  // Not by its own emplace, which compares each name with all before.
  for (auto& [name, field] : value.fields)
    object.Json::object_t::Container::emplace_back(std::move(name), std::move(field));
  return Json(std::move(object));
}

class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const std::string& text) : text_(text) {}

  Json root;
  std::string why_not_json, why_refused;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }
  bool start_object(size_t) override { return begin(true); }
  bool start_array(size_t) override { return begin(false); }
  bool end_array() override { return end(); }

  bool key(string_t& name) override {
    name_ = std::move(name);
    return true;
  }

  bool end_object() override {
    const auto twice = name_that_comes_twice(open_.back());
    if (twice) why_refused = "has the field " + Json(*twice).dump() + " twice" + place();
    return !twice && end();
  }

  // The library does not say where a number is too large.
  bool parse_error(size_t bytes_read, const std::string&, const Json::exception& error) override {
    const std::string what = error.what();  // "[json.exception...] parse error at line 1, ..."
    why_not_json = excerpt(what.substr(what.find("] ") + 2));  // it quotes all that was read last
    if (!dynamic_cast<const Json::parse_error*>(&error)) why_not_json += line_at(bytes_read);
    return false;
  }

 private:
  bool add(Json value) {
    if (++value_count_ > kJsonValuesMost) {
      why_refused = "has more than " + std::to_string(kJsonValuesMost) + " values";
      return false;
    }
    if (open_.empty())
      root = std::move(value);
    else if (open_.back().is_object)
      open_.back().fields.emplace_back(std::move(name_), std::move(value));
    else
      open_.back().elements.push_back(std::move(value));
    return true;
  }

  bool begin(bool is_object) {
    if (open_.size() == kJsonLevelsMost) {
      why_refused =
          "is nested more than " + std::to_string(kJsonLevelsMost) + " levels deep" + place();
      return false;
    }
    open_.push_back({.is_object = is_object, .name = std::move(name_)});
    return true;
  }

  bool end() {
    auto ended = std::move(open_.back());
    open_.pop_back();
    name_ = std::move(ended.name);
    return add(finished(std::move(ended)));
  }

  // Where the innermost unfinished value is: ", in results[2].case"; nothing for the whole text.
  std::string place() const {
    std::string path;
    for (size_t i = 1; i < open_.size(); ++i) {
      const auto& around = open_[i - 1];
      if (!around.is_object)
        path += "[" + std::to_string(around.elements.size()) + "]";
      else
        path += (path.empty() ? "" : ".") + open_[i].name;
    }
    return path.empty() ? "" : ", in " + excerpt(one_line(path));
  }

  std::string line_at(size_t bytes_read) const {
    const auto end =
        text_.begin() + static_cast<std::ptrdiff_t>(std::min(bytes_read, text_.size()));
    return " at line " + std::to_string(1 + std::count(text_.begin(), end, '\n'));
  }

  const std::string& text_;
  std::vector<Unfinished> open_;
  std::string name_;  // of the next value in an object
  size_t value_count_ = 0;
};

}  // namespace

Json parse_json(const std::string& text, const std::string& name) {
  Builder builder(text);
  if (Json::sax_parse(text, &builder)) return std::move(builder.root);
  if (builder.why_refused.empty()) throw NotJson(name + ": not JSON: " + builder.why_not_json);
  throw FieldError(name + ": " + builder.why_refused);
}

}  // namespace lockstep
