#include "tests/fake_cuda/reduction.h"

#include "tests/fake_cuda/journal.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

namespace lockstep::fake_cuda {

namespace {

template <class T>
void reduce_as(const std::vector<std::vector<char>>& parts, char* to, std::size_t count,
               ncclRedOp_t operation) {
  const auto divisor = static_cast<T>(parts.size());
  const bool divides_first = operation == ncclAvg && std::is_floating_point_v<T>;
  const bool divides_last = operation == ncclAvg && !divides_first;
  for (std::size_t i = 0; i < count; ++i) {
    T result{};
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      T number = reinterpret_cast<const T*>(parts[rank].data())[i];
      if (divides_first) number = number / divisor;
      if (rank == 0) {
        result = number;
        continue;
      }
      switch (operation) {
        case ncclSum:
        case ncclAvg:
          result = static_cast<T>(result + number);
          break;
        case ncclProd:
          result = static_cast<T>(result * number);
          break;
        case ncclMax:
          result = std::max(result, number);
          break;
        case ncclMin:
          result = std::min(result, number);
          break;
        default:
          give_up("a reduction that is none of NCCL's five");
      }
    }
    if (divides_last) result = static_cast<T>(result / divisor);
    reinterpret_cast<T*>(to)[i] = result;
  }
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      give_up("type " + std::to_string(type) + " of NCCL's is not known here");
  }
}

void reduce(const std::vector<std::vector<char>>& parts, char* to, std::size_t count,
            ncclDataType_t type, ncclRedOp_t operation) {
  switch (type) {
    case ncclInt8:
      return reduce_as<std::int8_t>(parts, to, count, operation);
    case ncclUint8:
      return reduce_as<std::uint8_t>(parts, to, count, operation);
    case ncclInt32:
      return reduce_as<std::int32_t>(parts, to, count, operation);
    case ncclUint32:
      return reduce_as<std::uint32_t>(parts, to, count, operation);
    case ncclInt64:
      return reduce_as<std::int64_t>(parts, to, count, operation);
    case ncclUint64:
      return reduce_as<std::uint64_t>(parts, to, count, operation);
    case ncclFloat32:
      return reduce_as<float>(parts, to, count, operation);
    case ncclFloat64:
      return reduce_as<double>(parts, to, count, operation);
    default:
      give_up("numbers of type " + std::to_string(type) + " cannot be reduced here");
  }
}

}  // namespace lockstep::fake_cuda
