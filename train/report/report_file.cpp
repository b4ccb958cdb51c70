#include "train/report/report_file.h"

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "data/io/durable_file.h"
#include "train/report/html_page.h"

namespace tapestry {

std::size_t write_report(const ReportData& data, const std::filesystem::path& path) {
  const std::string page = html_page(data.json());
  write_file_durably(path, std::as_bytes(std::span(page)));
  return page.size();
}

void write_report(const RunDirectory& directory, const RunInProgress& run) {
  ReportData data({});
  data.add(directory.path().string(), &run);
  write_report(data, directory.path() / report_file_name);
}

}  // namespace tapestry
