// The files of the page, as text: made from page.html, page.css and page.js by cmake/embed_text.cmake.
#pragma once

#include <string_view>

namespace crashcut::result {

extern const std::string_view kPageHtml, kPageCss, kPageJs;

}  // namespace crashcut::result
