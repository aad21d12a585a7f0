/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tls_stream: what sealed long messages are compared with. One TCP connection with TLS 1.3 by
 * OpenSSL, both ends on this host, each a process; AES-128-GCM, or what the option says. The kernel
 * seals and unseals (kTLS) where it can. A message counts when the receiver has all of it and has
 * said so.
 *
 * usage: tls_stream BYTES COUNT [SUITE]
 *
 * Prints a line of JSON for each message: MB/s; and whether the kernel sealed.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (1u << 20)

static void must(int right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "tls_stream: %s failed\n", what);
	exit(1);
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static SSL_CTX *context(const SSL_METHOD *method, const char *suite)
{
	SSL_CTX *ctx = SSL_CTX_new(method);

	must(ctx && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
		SSL_CTX_set_ciphersuites(ctx, suite) == 1, "OpenSSL");
	SSL_CTX_set_options(ctx, SSL_OP_ENABLE_KTLS);
	return ctx;
}

/* A key and a certificate that nobody looks at. */
static void certify(SSL_CTX *ctx)
{
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
	X509 *own = X509_new();

	must(key && own, "a key");
	X509_gmtime_adj(X509_getm_notBefore(own), 0);
	X509_gmtime_adj(X509_getm_notAfter(own), 3600);
	must(X509_set_pubkey(own, key) && X509_sign(own, key, EVP_sha256()) &&
		SSL_CTX_use_certificate(ctx, own) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1,
		"a certificate");
	X509_free(own);
	EVP_PKEY_free(key);
}

static SSL *session(SSL_CTX *ctx, int fd)
{
	SSL *ssl = SSL_new(ctx);
	int on = 1;

	must(ssl && SSL_set_fd(ssl, fd) == 1, "SSL_new");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return ssl;
}

/* Receives message after message, and says so with a byte. */
static int serve(int listener, const char *suite, size_t bytes)
{
	uint8_t *message = malloc(bytes);
	SSL_CTX *ctx = context(TLS_server_method(), suite);
	SSL *ssl;
	size_t n, at;

	certify(ctx);
	ssl = session(ctx, accept(listener, NULL, NULL));
	must(message && SSL_accept(ssl) == 1, "SSL_accept");
	for (;;) {
		for (at = 0; at < bytes; at += n)
			if (SSL_read_ex(ssl, message + at, bytes - at, &n) != 1)
				return at ? 1 : 0;
		must(SSL_write_ex(ssl, message, 1, &n) == 1, "the answer");
	}
}

static void send_all(SSL *ssl, const uint8_t *message, size_t bytes)
{
	size_t n, at;
	uint8_t answer;

	for (at = 0; at < bytes; at += n)
		must(SSL_write_ex(ssl, message + at, bytes - at < CHUNK ? bytes - at : CHUNK,
			&n) == 1, "SSL_write_ex");
	must(SSL_read_ex(ssl, &answer, 1, &n) == 1, "the answer");
}

static void measure(const struct sockaddr_in *to, const char *suite, size_t bytes, int count)
{
	uint8_t *message = malloc(bytes);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	SSL *ssl = session(context(TLS_client_method(), suite), fd);

	must(message && connect(fd, (const struct sockaddr *)to, sizeof(*to)) == 0 &&
		SSL_connect(ssl) == 1, "SSL_connect");
	memset(message, 0x5a, bytes);
	send_all(ssl, message, bytes); /* to warm up */
	for (int i = 0; i < count; i++) {
		double began = now_s();

		send_all(ssl, message, bytes);
		printf("{\"mbs\": %.1f, \"ktls\": %s}\n", (double)bytes / 1e6 / (now_s() - began),
			BIO_get_ktls_send(SSL_get_wbio(ssl)) ? "true" : "false");
		fflush(stdout);
	}
	SSL_shutdown(ssl);
	close(fd);
	free(message);
}

int main(int argc, char **argv)
{
	const char *suite = argc > 3 ? argv[3] : "TLS_AES_128_GCM_SHA256";
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0), status;
	size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
	pid_t server;

	if (!bytes || argc < 3) {
		fprintf(stderr, "usage: tls_stream BYTES COUNT [SUITE]\n");
		return 2;
	}
	must(bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(listener, 1) == 0 &&
		getsockname(listener, (struct sockaddr *)&at, &len) == 0, "listening");
	server = fork();
	if (server == 0)
		_exit(serve(listener, suite, bytes));
	close(listener);
	measure(&at, suite, bytes, atoi(argv[2]));
	must(waitpid(server, &status, 0) == server && status == 0, "the server");
	return 0;
}
