#include "train/parallel/equal_processes.h"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>

#include "data/io/utf8.h"
#include "train/platform/machine.h"
#include "train/platform/message.h"

namespace tapestry {
namespace {

/// The first line in which the text differs from another one; empty if it is shorter.
std::string first_other_line(std::string_view text, std::string_view other) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size() && i < other.size() && text[i] == other[i]; ++i) {
    if (text[i] == '\n') begin = i + 1;
  }
  std::string_view line = text.substr(begin);
  line = line.substr(0, line.find('\n'));
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return escaped(std::string(line));
}

}  // namespace

void require_equal_processes(ProcessGroup& group, const std::vector<EqualProperty>& properties) {
  require_equal_processes(group, [&] { return properties; });
}

void require_equal_processes(ProcessGroup& group,
                             const std::function<std::vector<EqualProperty>()>& compute) {
  if (group.size() == 1) return;
  std::vector<EqualProperty> properties;
  const std::vector<std::string> all = group.all_gather([&] {
    properties = compute();
    MessageWriter own;
    own.put(host_name());
    for (const EqualProperty& property : properties) own.put(property.text);
    return own.take();
  });
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    MessageReader first(all.front()), other(all[rank]);
    const std::string first_host(first.get_text()), host(other.get_text());
    for (const EqualProperty& property : properties) {
      const std::string_view expected = first.get_text(), found = other.get_text();
      if (found == expected) continue;
      throw PeerFailure(property.code,
                        fmt::format("rank {} on {}: {}: found `{}`, expected `{}` as on rank 0, {}",
                                    rank, host, property.what, first_other_line(found, expected),
                                    first_other_line(expected, found), first_host),
                        "start the same program with the same arguments and files on all machines");
    }
  }
}

}  // namespace tapestry
