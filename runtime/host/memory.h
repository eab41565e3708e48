// Memory as printed kernels see it: pointers, shared buffers and register arrays that know their bounds.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "engine.h"

namespace host {

// The address of an element of global memory.
template <typename T>
struct Address {
  const Buffer* buffer;
  const char* name;
  long long index;

  operator T*() const { return reinterpret_cast<T*>(buffer->begin + (uintptr_t)(index * (long long)sizeof(T))); }
};

// An element of global memory. It is checked where it is read or written, not where its address is taken: a copy that
// is outside of its source takes an address of what it does not read.
template <typename T>
struct Element {
  const Buffer* buffer;
  const char* name;
  long long index;
  using Value = std::remove_const_t<T>;

  Value load() const { return access_load<Value>(*buffer, name, index * (long long)sizeof(T), std::is_const_v<T>); }
  void store(const Value& value) const {
    static_assert(!std::is_const_v<T>, "the kernel writes what it declares const");
    access_store(*buffer, name, index * (long long)sizeof(T), value);
  }
  operator Value() const { return load(); }
  const Element& operator=(const Element& other) const { return store(other.load()), *this; }
  template <typename Other>
  const Element& operator=(const Other& other) const {
    return store(static_cast<Value>(other)), *this;
  }

  Address<T> operator&() const { return {buffer, name, index}; }
};

// A pointer to global memory, the parameter `T* name` of a kernel.
template <typename T>
struct Pointer {
  const Buffer* buffer;
  const char* name;
  long long first = 0;

  Pointer operator+(long long elements) const { return {buffer, name, first + elements}; }
  Element<T> operator[](long long index) const { return {buffer, name, first + index}; }
};

template <typename T>
constexpr bool is_pointer = false;
template <typename T>
constexpr bool is_pointer<Pointer<T>> = true;

// What a kernel is called with: a buffer, or the bytes of a tensor map.
struct Argument {
  const Buffer* buffer;
  unsigned char map[128];
};

struct Named {
  const Argument& argument;
  const char* name;

  template <typename T>
  operator T() const {
    if constexpr (is_pointer<T>) {
      if (argument.buffer == nullptr) fault("the argument for %s is a tensor map, not a buffer", name);
      return {argument.buffer, name};
    } else {
      static_assert(sizeof(T) == sizeof(argument.map), "a parameter is a pointer or a tensor map");
      if (argument.buffer != nullptr) fault("the argument for %s is a buffer, not a tensor map", name);
      T result;
      memcpy(&result, argument.map, sizeof(T));
      return result;
    }
  }
};

// The declaration `__shared__ __align__(alignment) T name[N]` of one CTA.
template <typename T>
struct Shared {
  const Extent* extent;

  Shared(const char* name, int line, long long elements, int alignment)
      : extent(declare_shared(name, line, elements * (long long)sizeof(T), alignment)) {}
  Shared(const char* name, int line, const Pool& pool, long long first, long long bytes)
      : extent(declare_in_pool(name, line, pool, first, bytes)) {}

  T& operator[](long long index) const {
    if (index < 0 || index >= extent->bytes / (long long)sizeof(T))
      outside(extent->name, index, extent->bytes / (long long)sizeof(T));
    touched = extent;
    return reinterpret_cast<T*>(extent->begin)[index];
  }
  operator T*() const { return reinterpret_cast<T*>(extent->begin); }
};

// The declaration `T name[M][N]..`: an array in registers. Without `__align__(16)` it lies at an odd multiple of T.
template <typename T, bool is_aligned, long long... extents>
struct Registers {
  static constexpr long long size = (1 * ... * extents);
  Extent extent;
  alignas(16) unsigned char memory[size * sizeof(T) + 16];

  explicit Registers(const char* name) {
    memset(memory, poison, sizeof(memory));
    extent = {reinterpret_cast<char*>(memory) + (is_aligned ? 0 : sizeof(T)), size * (long long)sizeof(T), name};
  }

  template <long long extent_, long long... rest>
  struct Row {
    const Registers* array;
    long long first;
    decltype(auto) operator[](long long index) const {
      if (index < 0 || index >= extent_) outside(array->extent.name, index, extent_);
      const long long at = first * extent_ + index;
      if constexpr (sizeof...(rest) == 0) {
        touched = &array->extent;
        return (reinterpret_cast<T*>(array->extent.begin)[at]);
      } else {
        return Row<rest...>{array, at};
      }
    }
  };
  decltype(auto) operator[](long long index) const { return Row<extents...>{this, 0}[index]; }
};

// `reinterpret_cast<T*>(address)`: what it points to is moved as a whole, so it must lie inside and be aligned.
template <typename T, typename Source>
struct WideGlobal {
  Address<Source> address;
  using Value = std::remove_const_t<T>;

  const WideGlobal& operator*() const { return *this; }
  operator Value() const {
    return access_load<Value>(*address.buffer, address.name, byte(), std::is_const_v<Source>);
  }
  const WideGlobal& operator=(const WideGlobal& other) const { return *this = static_cast<Value>(other); }
  template <typename Other>
  const WideGlobal& operator=(const Other& other) const {
    static_assert(!std::is_const_v<T>, "the kernel writes what it declares const");
    access_store(*address.buffer, address.name, byte(), static_cast<Value>(other));
    return *this;
  }

 private:
  long long byte() const { return address.index * (long long)sizeof(Source); }
};

template <typename T>
struct WideLocal {
  T* place;
  const Extent* extent;
  using Value = std::remove_const_t<T>;

  const WideLocal& operator*() const { return *this; }
  operator Value() const {
    check();
    Value result;
    memcpy(&result, place, sizeof(T));
    return result;
  }
  const WideLocal& operator=(const WideLocal& other) const { return *this = static_cast<Value>(other); }
  template <typename Other>
  const WideLocal& operator=(const Other& other) const {
    check();
    const Value value = static_cast<Value>(other);
    memcpy(place, &value, sizeof(T));
    return *this;
  }
  operator T*() const { return place; }

 private:
  void check() const {
    const long long first = reinterpret_cast<const char*>(place) - extent->begin;
    check_span(extent->name, first, sizeof(T), extent->bytes, reinterpret_cast<uintptr_t>(place), alignof(T));
  }
};

template <typename To, typename Source>
auto cast(const Address<Source>& address) {
  using T = std::remove_pointer_t<To>;
  static_assert(std::is_const_v<T> || !std::is_const_v<Source>, "the cast drops const");
  return WideGlobal<T, Source>{address};
}

template <typename To, typename Source>
auto cast(Source* address) {
  using T = std::remove_pointer_t<To>;
  static_assert(std::is_const_v<T> || !std::is_const_v<Source>, "the cast drops const");
  return WideLocal<T>{reinterpret_cast<T*>(address), touched};
}

}  // namespace host
