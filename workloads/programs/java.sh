#!/usr/bin/env bash
# Java: a file replaced by Files.writeString, and by a temporary file that FileChannel.force makes durable before
# Files.move replaces the old one.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(default-jdk-headless)
variants=("java Files.writeString" "java force and move")
expected=(["java Files.writeString"]="loses" ["java force and move"]="atomic")

source=
run() {
  source=$(mktemp -d)
  trap 'rm -rf "$source"' EXIT
  cat > "$source/Save.java" << 'END'
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.*;

class Save {
  public static void main(String[] words) throws Exception {
    Path path = Path.of("notes.txt");
    if (words[0].equals("plain")) {
      Files.writeString(path, words[1] + "\n");
      return;
    }
    Path temporary = Path.of("notes.tmp");
    try (FileChannel out = FileChannel.open(temporary, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
      out.write(ByteBuffer.wrap((words[1] + "\n").getBytes()));
      out.force(true);
    }
    Files.move(temporary, path, StandardCopyOption.ATOMIC_MOVE);
  }
}
END
  case $1 in
    *writeString) java -XX:-UsePerfData "$source/Save.java" plain "$new_text" ;;
    *) java -XX:-UsePerfData "$source/Save.java" safe "$new_text" ;;
  esac
  say_saved
}

main "$@"
