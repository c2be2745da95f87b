-- Sends the requests of a file one after the other, and reports as one line of JSON.
-- Each line of the file: path, TAB, range, and TAB and "Name: value" for every other header.
local requests, index = {}, 0

function init(args)
  for line in io.lines(args[1]) do
    local fields = {}
    for field in line:gmatch("[^\t]+") do
      fields[#fields + 1] = field
    end
    local headers = { Range = fields[2] }
    for i = 3, #fields do
      local name, value = fields[i]:match("^([^:]+): (.*)$")
      headers[name] = value
    end
    requests[#requests + 1] = wrk.format("GET", fields[1], headers)
  end
end

function request()
  index = index % #requests + 1
  return requests[index]
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '{"requests":%d,"bytes":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"max_us":%d,' ..
      '"status_errors":%d,"socket_errors":%d}\n',
    summary.requests, summary.bytes, summary.duration,
    latency:percentile(50), latency:percentile(99), latency.max,
    e.status, e.connect + e.read + e.write + e.timeout))
end
