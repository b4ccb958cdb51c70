#include "train/properties/property.h"

#include <exception>
#include <new>
#include <utility>

namespace tapestry {

PropertyResult holds(std::string text) { return {PropertyVerdict::holds, std::move(text)}; }

PropertyResult fails(std::string text) { return {PropertyVerdict::fails, std::move(text)}; }

PropertyResult not_asked(std::string text) { return {PropertyVerdict::not_asked, std::move(text)}; }

PropertyResult examine(const Property& property, const Subject& subject) {
  try {
    return property.examine(subject);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return fails(error.what());
  }
}

}  // namespace tapestry
