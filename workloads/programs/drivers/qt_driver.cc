// Qt: QSaveFile, which writes a temporary file and renames it; "QFile" truncates and writes; "QSettings" writes an INI
// file.
#include <QFile>
#include <QSaveFile>
#include <QSettings>

#include "driver.h"

namespace {

void look(bool is_settings) {
  if (is_settings) {
    const QString found = QSettings("notes.txt", QSettings::IniFormat).value("notes").toString();
    puts(found == value_of("old")   ? "old"
         : found == value_of("new") ? "new"
         : found.isEmpty()          ? "empty"
                                    : "something else");
    return;
  }
  QFile file("notes.txt");
  if (!file.open(QIODevice::ReadOnly)) {
    puts("missing");
    return;
  }
  const QByteArray text = file.readAll();
  if (text.isEmpty())
    puts("empty");
  else if (text.contains('\0'))
    puts("NULs");
  else
    puts(text == value_of("old") ? "old" : text == value_of("new") ? "new" : "something else");
}

template <class File>
void save(File& file, const char* version) {
  if (!file.open(QIODevice::WriteOnly) || file.write(value_of(version)) < 0) fail("write", "failed");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  const std::string option = argc > 2 ? argv[2] : "";
  if (verb == "look") {
    look(option == "QSettings");
    return 0;
  }
  const char* const version = verb == "run" ? "new" : "old";
  if (option == "QSettings") {
    QSettings settings("notes.txt", QSettings::IniFormat);
    settings.setValue("notes", value_of(version));
    settings.sync();
  } else if (option == "QFile") {
    QFile file("notes.txt");
    save(file, version);
    file.close();
  } else {
    QSaveFile file("notes.txt");
    save(file, version);
    if (!file.commit()) fail("commit", "failed");
  }
  if (verb == "run") crashcut_mark("saved");
  return 0;
}
