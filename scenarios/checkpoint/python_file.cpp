#include "scenarios/checkpoint/python_file.h"

#include <torch/torch.h>

#include <caffe2/serialize/inline_container.h>
#include <cstring>
#include <map>
#include <stdexcept>

namespace lockstep::scenarios::checkpoint {

namespace {

using Kind = PythonObject::Kind;

std::string storage_class(at::ScalarType type) {
  return std::string("torch.") + at::toString(type) + "Storage";
}

class Pickler {
 public:
  explicit Pickler(const PickleStyle& style) : style_(style) {}

  std::string written(const PythonObject& value) {
    byte(0x80);
    byte(style_.protocol);
    save(value);
    byte('.');
    if (style_.protocol < 4) return std::move(out_);
    const std::string head = out_.substr(0, 2), framed = out_.substr(2);
    out_ = head;
    byte(0x95);
    number(static_cast<uint64_t>(framed.size()));
    return out_ + framed;
  }

  // In the order of their records: "0", "1", ...
  const std::vector<at::Tensor>& storages() const { return storages_; }

 private:
  void byte(int value) { out_ += static_cast<char>(value); }

  template <class Number>
  void number(Number value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    out_ += bytes;
  }

  size_t put() {
    const size_t place = memo_++;
    if (style_.protocol >= 4) {
      byte(0x94);
    } else if (place < 256) {
      byte('q');
      byte(static_cast<int>(place));
    } else {
      byte('r');
      number(static_cast<uint32_t>(place));
    }
    return place;
  }

  // Refers to the place of this name in the memo, or writes it and puts it there.
  template <class Write>
  void once(const std::string& name, const Write& write) {
    const auto found = style_.refers ? places_.find(name) : places_.end();
    if (found == places_.end()) {
      write();
      places_[name] = put();
    } else if (found->second < 256) {
      byte('h');
      byte(static_cast<int>(found->second));
    } else {
      byte('j');
      number(static_cast<uint32_t>(found->second));
    }
  }

  void save_text(const std::string& text) {
    once("text " + text, [&] {
      if (style_.protocol >= 4 && text.size() < 256) {
        byte(0x8c);
        byte(static_cast<int>(text.size()));
      } else {
        byte('X');
        number(static_cast<uint32_t>(text.size()));
      }
      out_ += text;
    });
  }

  void save_class(const std::string& name) {
    const auto at = name.rfind('.');
    const auto module = name.substr(0, at), last = name.substr(at + 1);
    once("class " + name, [&] {
      if (style_.protocol < 4) {
        out_ += 'c' + module + '\n' + last + '\n';
        return;
      }
      save_text(module);
      save_text(last);
      byte(0x93);
    });
  }

  void save_whole(int64_t value) {
    if (value >= 0 && value < 256) {
      byte('K');
      byte(static_cast<int>(value));
    } else if (value >= 0 && value < 65536) {
      byte('M');
      number(static_cast<uint16_t>(value));
    } else if (value == static_cast<int32_t>(value)) {
      byte('J');
      number(static_cast<int32_t>(value));
    } else {
      std::string bytes(sizeof value, '\0');
      std::memcpy(bytes.data(), &value, sizeof value);
      const char sign = value < 0 ? '\xff' : '\0';
      while (bytes.size() > 1 && bytes.back() == sign &&
             (bytes[bytes.size() - 2] & 0x80) == (sign & 0x80))
        bytes.pop_back();
      byte(0x8a);
      byte(static_cast<int>(bytes.size()));
      out_ += bytes;
    }
  }

  void save_real(double value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    byte('G');
    out_.append(bytes.rbegin(), bytes.rend());
  }

  // Behind a mark, where there are more than three.
  template <class Save>
  void save_tuple(size_t count, const Save& save_items) {
    if (count == 0) return byte(')');
    if (count > 3) byte('(');
    save_items();
    byte(count > 3 ? 't' : 0x84 + static_cast<int>(count));
    put();
  }

  void save_extents(at::IntArrayRef extents) {
    save_tuple(extents.size(), [&] {
      for (const auto each : extents) save_whole(each);
    });
  }

  // `each` writes item i of `count`; Python writes one alone without a mark.
  template <class Each>
  void save_items(size_t count, char one, char many, const Each& each) {
    if (count > 1) byte('(');
    for (size_t i = 0; i < count; ++i) each(i);
    if (count > 0) byte(count > 1 ? many : one);
  }

  void save_dict_items(const PythonObject::Items& items) {
    save_items(items.size() / 2, 's', 'u', [&](size_t i) {
      save(items[2 * i]);
      save(items[2 * i + 1]);
    });
  }

  void save_empty_ordered_dict() {
    save_class("collections.OrderedDict");
    byte(')');
    byte('R');
    put();
  }

  void save_metadata() {
    byte('}');
    put();
    save_text("_metadata");
    save_empty_ordered_dict();
    save_text("");
    byte('}');
    put();
    save_text("version");
    save_whole(1);
    byte('s');
    byte('s');
    byte('s');
    byte('b');
  }

  std::string key_of_storage(const at::Tensor& tensor) {
    for (size_t i = 0; i < storages_.size(); ++i)
      if (storages_[i].storage().is_alias_of(tensor.storage())) return std::to_string(i);
    storages_.push_back(tensor);
    return std::to_string(storages_.size() - 1);
  }

  void save_tensor(const at::Tensor& tensor) {
    save_class("torch._utils._rebuild_tensor_v2");
    byte('(');
    byte('(');
    save_text("storage");
    save_class(storage_class(tensor.scalar_type()));
    save_text(key_of_storage(tensor));
    save_text("cpu");
    save_whole(static_cast<int64_t>(tensor.storage().nbytes()) / tensor.element_size());
    byte('t');
    put();
    byte('Q');
    save_whole(tensor.storage_offset());
    save_extents(tensor.sizes());
    save_extents(tensor.strides());
    byte(0x89);
    save_empty_ordered_dict();
    byte('t');
    put();
    byte('R');
    put();
  }

  void save_parameter(const at::Tensor& tensor) {
    save_class("torch._utils._rebuild_parameter");
    save_tuple(3, [&] {
      save_tensor(tensor);
      byte(0x88);
      save_empty_ordered_dict();
    });
    byte('R');
    put();
  }

  void save(const PythonObject& value) {
    switch (value.kind) {
      case Kind::none:
        return byte('N');
      case Kind::boolean:
        return byte(value.whole != 0 ? 0x88 : 0x89);
      case Kind::whole:
        return save_whole(value.whole);
      case Kind::real:
        return save_real(value.real);
      case Kind::text:
        return save_text(value.text);
      case Kind::tensor:
        return save_tensor(value.tensor);
      case Kind::parameter:
        return save_parameter(value.tensor);
      case Kind::named:
        return save_class(value.text);
      case Kind::tuple:
        return save_tuple(value.items.size(), [&] {
          for (const auto& each : value.items) save(each);
        });
      case Kind::list:
        byte(']');
        put();
        return save_items(value.items.size(), 'a', 'e', [&](size_t i) { save(value.items[i]); });
      case Kind::dict:
        byte('}');
        put();
        return save_dict_items(value.items);
      case Kind::ordered_dict:
        save_empty_ordered_dict();
        save_dict_items(value.items);
        return save_metadata();
    }
  }

  const PickleStyle style_;
  std::string out_;
  size_t memo_ = 0;
  std::map<std::string, size_t> places_;
  std::vector<at::Tensor> storages_;
};

}  // namespace

std::string archive_of(const std::string& pickle, const std::vector<at::Tensor>& storages) {
  std::string out;
  caffe2::serialize::PyTorchStreamWriter archive([&](const void* bytes, size_t size) {
    out.append(static_cast<const char*>(bytes), size);
    return size;
  });
  archive.writeRecord("data.pkl", pickle.data(), pickle.size());
  archive.writeRecord("byteorder", "little", 6);
  for (size_t i = 0; i < storages.size(); ++i) {
    const auto& storage = storages[i].storage();
    archive.writeRecord("data/" + std::to_string(i), storage.data(), storage.nbytes());
  }
  archive.writeEndOfFile();
  return out;
}

std::string python_file(const PythonObject& value, const PickleStyle& style) {
  Pickler pickler(style);
  const auto pickle = pickler.written(value);
  return archive_of(pickle, pickler.storages());
}

}  // namespace lockstep::scenarios::checkpoint
