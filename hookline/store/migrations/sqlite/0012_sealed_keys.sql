-- What is sealed with which key is found without reading all of it.

-- The first five bytes of a sealed value name the key. These indexes find those of one key.
CREATE INDEX endpoint_secrets_key ON endpoint (substr(secrets, 1, 5), id);
CREATE INDEX endpoint_headers_key ON endpoint (substr(headers, 1, 5), id) WHERE headers IS NOT NULL;
CREATE INDEX endpoint_url_key ON endpoint (substr(sealed_url, 1, 5), id) WHERE sealed_url IS NOT NULL;
CREATE INDEX answer_key ON answer (substr(response, 1, 5), CAST(lower(hex(key)) AS text)) WHERE response IS NOT NULL;
