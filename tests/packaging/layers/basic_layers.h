// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A header of a user's project with the same name as a header of Tapestry.
inline constexpr int own_header = 1;
