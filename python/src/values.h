// Pickling and copying. A class of plain values is a ValueClass and is pickled by its members; a class of
// handles (stores, monitors, threads) refuses with a sentence that names what to do instead.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "src/bind.h"

namespace gpulens::python {

// Returns a text that lives as long as the process, for members that view static texts. Thread-safe.
std::string_view Interned(std::string text);

// How a member is stored in a pickle, and read from one. Types of nanobind are stored as they are.
template <class V>
struct Pickled {
  static nb::object Save(const V& value) { return nb::cast(value); }
  static void Load(nb::handle from, V& to) { to = nb::cast<V>(from); }
};
template <class V>
  requires std::is_enum_v<V>
struct Pickled<V> {
  static nb::object Save(V value) { return nb::int_(static_cast<int64_t>(value)); }
  static void Load(nb::handle from, V& to) { to = static_cast<V>(nb::cast<int64_t>(from)); }
};
template <>
struct Pickled<std::string_view> {
  static nb::object Save(std::string_view value) { return ToPython(value); }
  static void Load(nb::handle from, std::string_view& to) { to = Interned(nb::cast<std::string>(from)); }
};
template <class Rep, class Period>
struct Pickled<std::chrono::duration<Rep, Period>> {
  using V = std::chrono::duration<Rep, Period>;
  static nb::object Save(V value) { return nb::cast(value.count()); }
  static void Load(nb::handle from, V& to) { to = V(nb::cast<Rep>(from)); }
};
template <class Clock, class Span>
struct Pickled<std::chrono::time_point<Clock, Span>> {
  using V = std::chrono::time_point<Clock, Span>;
  static nb::object Save(V value) { return Pickled<Span>::Save(value.time_since_epoch()); }
  static void Load(nb::handle from, V& to) {
    Span since{};
    Pickled<Span>::Load(from, since);
    to = V(since);
  }
};
template <class Kind>
struct Pickled<std::optional<Kind>> {
  static nb::object Save(const std::optional<Kind>& value) {
    return value ? Pickled<Kind>::Save(*value) : nb::object(nb::none());
  }
  static void Load(nb::handle from, std::optional<Kind>& to) {
    if (from.is_none()) to.reset();
    else Pickled<Kind>::Load(from, to.emplace());
  }
};
template <>
struct Pickled<Status> {
  static nb::object Save(const Status& value) {
    return nb::make_tuple(static_cast<int64_t>(value.code), ToPython(value.detail));
  }
  static void Load(nb::handle from, Status& to) {
    to = {static_cast<Code>(nb::cast<int64_t>(from[0])), nb::cast<std::string>(from[1])};
  }
};
template <class Array>
struct PickledArray {
  static nb::list Save(const Array& values) {
    nb::list out;
    for (const auto& value : values) out.append(value);
    return out;
  }
  static void Load(nb::handle from, Array& to) {
    size_t at = 0;
    for (auto& value : to) value = nb::cast<std::remove_reference_t<decltype(value)>>(from[at++]);
  }
};
template <class Kind, size_t kSize>
struct Pickled<Kind[kSize]> : PickledArray<Kind[kSize]> {};
template <class Kind, size_t kSize>
struct Pickled<std::array<Kind, kSize>> : PickledArray<std::array<Kind, kSize>> {};

// "EnergyTicks(count=3, mean_power_watts=71.0)" of the attributes with these names.
std::string PrintedAttributes(nb::handle self, const std::vector<const char*>& names);
// Raise DataLossError for a field of a pickle that this version does not have, or whose value has another
// type.
[[noreturn]] void UnknownField(const char* kind, const std::string& name);
[[noreturn]] void WrongField(const char* kind, const std::string& name);

// Class of plain values: pickle, copy.copy and copy.deepcopy keep every member that def_ro or keeps() names,
// bit for bit. Members that a pickle of an older version lacks have their defaults.
template <class T>
class ValueClass : public nb::class_<T> {
  using Base = nb::class_<T>;

 public:
  ValueClass(nb::handle scope, const char* name, const char* doc) : Base(scope, name, doc) {
    Kind() = name;
    Base::def("__getstate__", &Save, nb::sig("def __getstate__(self) -> dict[str, typing.Any]"));
    Base::def("__setstate__", &Load, nb::sig("def __setstate__(self, state: dict[str, typing.Any]) -> None"));
  }

  template <class V, class... Extra>
  ValueClass& def_ro(const char* name, V T::* member, const Extra&... extra) {
    Base::def_ro(name, member, extra...);
    return keeps(name, member);
  }
  template <class... Arguments>
  ValueClass& def_prop_ro(Arguments&&... arguments) {
    Base::def_prop_ro(std::forward<Arguments>(arguments)...);
    return *this;
  }
  template <class... Arguments>
  ValueClass& def(Arguments&&... arguments) {
    Base::def(std::forward<Arguments>(arguments)...);
    return *this;
  }
  // A member without an attribute of its own type, such as an enumeration; `name` in the pickle.
  template <class V>
  ValueClass& keeps(const char* name, V T::* member) {
    Fields().push_back({name, [member](const T& self) { return Pickled<V>::Save(self.*member); },
                        [member](T& self, nb::handle from) { Pickled<V>::Load(from, self.*member); }});
    return *this;
  }
  // Defines repr() as all members that were named before; each must be an attribute, too.
  ValueClass& prints_all() {
    std::vector<const char*> names;
    for (const Field& field : Fields()) names.push_back(field.name);
    return def("__repr__",
               [names = std::move(names)](nb::handle_t<T> self) { return PrintedAttributes(self, names); });
  }

 private:
  struct Field {
    const char* name;
    std::function<nb::object(const T&)> save;
    std::function<void(T&, nb::handle)> load;
  };
  // Written while the module is imported, read afterwards.
  static std::vector<Field>& Fields() {
    static std::vector<Field> fields;
    return fields;
  }
  static const char*& Kind() {
    static const char* kind = "";
    return kind;
  }

  static nb::dict Save(const T& self) {
    nb::dict out;
    for (const Field& field : Fields()) out[field.name] = field.save(self);
    return out;
  }
  static void Load(T& self, const nb::dict& state) {
    T made{};
    for (const auto& [key, value] : state) {
      const std::string name(Text(key, "the name of a field"));
      const Field* known = nullptr;
      for (const Field& field : Fields())
        if (name == field.name) known = &field;
      if (!known) UnknownField(Kind(), name);
      try {
        known->load(made, value);
      } catch (const nb::cast_error&) {
        WrongField(Kind(), name);
      }
    }
    new (&self) T(std::move(made));
  }
};

// Makes pickle, copy.copy and copy.deepcopy of a handle raise a TypeError that ends with `instead`: what to
// do.
template <class T, class... Options>
void RefusesPickle(nb::class_<T, Options...>& kind, const char* instead) {
  const auto refuse = [instead](nb::handle_t<T> self) {
    const std::string name = nb::cast<std::string>(self.type().attr("__name__"));
    throw nb::type_error((name + " cannot be pickled or copied: " + instead).c_str());
  };
  kind.def("__reduce__", refuse, nb::sig("def __reduce__(self) -> typing.NoReturn"));
}

}  // namespace gpulens::python
