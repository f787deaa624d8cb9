# brew install --HEAD --formula packaging/homebrew/trident.rb: on Linux, in a clone, from what is committed there.
class Trident < Formula
  desc "Trains and serves classifiers of texts and numbers"
  head "file://#{File.expand_path("../..", __dir__)}", using: :git
  license "Apache-2.0"

  depends_on "pkgconf" => [:build, :test]
  depends_on "xxhash" => :build
  depends_on "libyaml"
  depends_on :linux
  depends_on "lz4"
  depends_on "utf8proc"
  depends_on "zlib"
  depends_on "zstd"

  def install
    system "make", "install", "CC=#{ENV.cc}", "CFLAGS=-O3 -g1", "MPI=", "NVCC=", "PREFIX=#{prefix}"
  end

  test do
    system bin/"trident", "doctor"
    (testpath/"user.c").write <<~C
      #include <trident.h>
      int main(void) { return tri_version()[0] == 0; }
    C
    flags = shell_output("pkgconf --cflags --libs trident").split
    system ENV.cc, "user.c", "-o", "user", *flags
    system "./user"
  end
end
